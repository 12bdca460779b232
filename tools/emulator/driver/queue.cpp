#include "driver/queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "driver/graphs.h"
#include "driver/state.h"

namespace stratum::emulator::driver {
namespace {

// The legacy stream's operations come after all that blocking streams of the device had before, and before all that
// they get later.
std::vector<Point> implied(State& s, const Stream& stream) {
  Stream& legacy = stream.device->legacy;
  if (&stream != &legacy) return stream.blocking ? std::vector<Point>{{&legacy, legacy.last}} : std::vector<Point>{};
  std::vector<Point> points;
  for (Stream* other : s.streams_of(*stream.device)) {
    if (other != &legacy && other->blocking) points.push_back({other, other->last});
  }
  return points;
}

// Notes what the stream's next operation comes after; leaves what its earlier ones came after already.
std::vector<Point> add_waits(Stream& stream, uint64_t order, const std::vector<Point>& points) {
  std::vector<Point> added;
  for (const Point& point : points) {
    if (point.stream == &stream || point.order <= point.stream->waited) continue;
    uint64_t& follows = stream.follows[point.stream];
    if (point.order <= follows) continue;
    follows = point.order;
    stream.waits.insert({order, point});
    added.push_back(point);
  }
  return added;
}

bool is_ready(const Operation& operation) { return std::ranges::all_of(operation.after, is_done); }

void run_first(Stream& stream) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (stream.device->sticky != kSuccess) return;  // after a fault nothing runs any more
  const Result result = operation.run();
  if (result != kSuccess) stream.device->sticky = result;
}

void check_copies(State& s, const Point& point) {
  std::erase_if(s.copies, [&](const PinnedCopy& copy) {
    if (copy.at.stream != point.stream || copy.at.order > point.order) return false;
    if (std::memcmp(copy.source, copy.content.data(), copy.content.size()) != 0) {
      s.fault("page-locked memory was written while a copy from it could be running");
    }
    return true;
  });
}

}  // namespace

Result submit(State& s, Stream& stream, Work work, std::vector<Point> after) {
  if (stream.capture) return add_captured(s, stream, std::move(work));
  return enqueue(s, stream, std::move(work.run), std::move(after));
}

Result enqueue(State& s, Stream& stream, std::function<Result()> run, std::vector<Point> after) {
  std::ranges::copy(implied(s, stream), std::back_inserter(after));
  const uint64_t order = ++s.operations;
  stream.queue.push_back({order, add_waits(stream, order, after), std::move(run)});
  stream.last = order;
  if (s.settings.schedule == Schedule::Eager) {
    run_until(s, {&stream, order});
    return stream.device->sticky;
  }
  return kSuccess;
}

bool is_done(const Point& point) {
  return point.stream == nullptr || point.stream->queue.empty() || point.stream->queue.front().order > point.order;
}

void run_until(State& s, const Point& point) {
  while (!is_done(point)) {
    for (const Point& before : point.stream->queue.front().after) run_until(s, before);
    run_first(*point.stream);
  }
}

void run_all(State& s, const Device& device) {
  for (Stream* stream : s.streams_of(device)) run_until(s, {stream, stream->last});
}

void host_wait(State& s, const Point& point) {
  if (point.stream == nullptr || point.order <= point.stream->waited) return;
  run_until(s, point);
  point.stream->waited = point.order;
  check_copies(s, point);
  std::multimap<uint64_t, Point>& waits = point.stream->waits;
  const auto end = waits.upper_bound(point.order);
  const std::vector<std::pair<uint64_t, Point>> before(waits.begin(), end);
  waits.erase(waits.begin(), end);
  for (const auto& [order, earlier] : before) host_wait(s, earlier);
}

void host_wait_all(State& s, const Device& device) {
  for (Stream* stream : s.streams_of(device)) host_wait(s, {stream, stream->last});
}

void run_some(State& s) {
  if (s.settings.schedule != Schedule::Random) return;
  constexpr unsigned kMost = 3;
  for (auto count = s.random() % (kMost + 1); count > 0; --count) {
    std::vector<Stream*> ready;
    for (const auto& device : s.devices) {
      for (Stream* stream : s.streams_of(*device)) {
        if (!stream->queue.empty() && is_ready(stream->queue.front())) ready.push_back(stream);
      }
    }
    if (ready.empty()) return;
    std::ranges::sort(ready, {}, &Stream::id);  // handles differ from process to process
    run_first(*ready[s.random() % ready.size()]);
  }
}

}  // namespace stratum::emulator::driver
