// What tests ask of the emulator: emulator.h.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "driver/capture.h"
#include "driver/emulator.h"
#include "driver/state.h"

namespace {

using namespace stratum::emulator::driver;

int64_t count_memory(const State& s, bool pinned) {
  return std::ranges::count_if(s.memory.allocations, [&](const auto& entry) {
    return entry.second.is_held() && (entry.second.kind == Allocation::Kind::Pinned) == pinned;
  });
}

}  // namespace

extern "C" {

void emulator_reset(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.launches.clear();
  s.faults.clear();
  s.calls.clear();
  s.failure = {};
  for (const auto& device : s.devices) device->sticky = kSuccess;
}

void emulator_fail(const char* function, int64_t nth, int32_t code) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.failure = {function, nth, code};
}

void emulator_execute(int32_t on) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.execute = on != 0;
}

int64_t emulator_calls(const char* function) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int64_t calls = 0;
  for (const auto& [name, count] : s.calls) {
    if (function == nullptr || name == function) calls += count;
  }
  return calls;
}

const char* emulator_called(int64_t index) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (index < 0 || index >= static_cast<int64_t>(s.calls.size())) return nullptr;
  return std::next(s.calls.begin(), index)->first.c_str();
}

int64_t emulator_launch_count(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return static_cast<int64_t>(s.launches.size());
}

int32_t emulator_launch_get(int64_t index, emulator_launch* launch) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (index < 0 || index >= static_cast<int64_t>(s.launches.size())) return 0;
  const Launch& found = *s.launches[static_cast<size_t>(index)];
  launch->kernel = found.kernel.c_str();
  launch->params = found.params.data();
  launch->params_bytes = static_cast<int64_t>(found.params.size());
  launch->stream = found.stream;
  std::copy_n(found.grid, 3, launch->grid);
  std::copy_n(found.block, 3, launch->block);
  launch->shared_bytes = found.shared_bytes;
  launch->device = found.device;
  launch->captured = found.captured ? 1 : 0;
  std::copy_n(found.cluster, 3, launch->cluster);
  launch->cooperative = found.cooperative ? 1 : 0;
  return 1;
}

int64_t emulator_live(const char* kind) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const std::string_view name = kind;
  if (name == "device") return count_memory(s, false);
  if (name == "pinned") return count_memory(s, true);
  const auto count = [](size_t live) { return static_cast<int64_t>(live); };
  if (name == "event") return count(s.events.live());
  if (name == "module") return count(s.modules.live());
  if (name == "stream") return count(s.streams.live());
  if (name == "graph") return count(s.graphs.live());
  if (name == "exec") return count(s.execs.live());
  if (name == "pool") return count(s.pools.live());
  return -1;
}

int64_t emulator_live_bytes(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int64_t bytes = 0;
  for (const auto& [address, allocation] : s.memory.allocations) {
    const bool pinned = allocation.kind == Allocation::Kind::Pinned;
    if (allocation.is_held() && !pinned) bytes += static_cast<int64_t>(allocation.bytes);
  }
  return bytes;
}

int64_t emulator_fault_count(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return static_cast<int64_t>(s.faults.size());
}

const char* emulator_fault(int64_t index) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (index < 0 || index >= static_cast<int64_t>(s.faults.size())) return nullptr;
  return s.faults[static_cast<size_t>(index)].c_str();
}

int64_t emulator_copies_in_flight(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return static_cast<int64_t>(s.copies.size());
}

int64_t emulator_queued(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int64_t queued = 0;
  for (const auto& device : s.devices) {
    for (const Stream* stream : s.streams_of(*device)) queued += static_cast<int64_t>(stream->queue.size());
  }
  return queued;
}

uint64_t emulator_stream_create(int32_t device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Device* const owner = s.devices.at(static_cast<size_t>(device)).get();
  return reinterpret_cast<uint64_t>(s.streams.make(Stream{.device = owner, .id = s.next_stream_id++}));
}

void emulator_stream_destroy(uint64_t handle) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Stream* stream = s.streams.find(reinterpret_cast<void*>(handle));
  if (stream == nullptr) return s.fault("destruction of an unknown stream");
  s.streams.destroy(stream);
}

int32_t emulator_stream_capture(uint64_t handle, int32_t begin) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Stream* stream = s.streams.find(reinterpret_cast<void*>(handle));
  if (stream == nullptr) return s.fault("capture of an unknown stream"), 0;
  if (begin != 0) return begin_capture(s, *stream, kGlobal) == kSuccess ? 1 : 0;
  Graph* graph = nullptr;
  if (end_capture(s, *stream, &graph) != kSuccess) return 0;
  s.graphs.destroy(graph);
  return 1;
}

void emulator_set_current_device(int32_t device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto& contexts = thread_state().contexts;
  if (!contexts.empty()) contexts.pop_back();
  if (device >= 0) contexts.push_back(&s.devices.at(static_cast<size_t>(device))->context);
  s.initialized = true;
}

int32_t emulator_current_device(void) {
  const auto& contexts = thread_state().contexts;
  return contexts.empty() ? -1 : contexts.back()->device;
}

int64_t emulator_context_depth(void) { return static_cast<int64_t>(thread_state().contexts.size()); }

int32_t stratum_driver_host_memory(void) { return 1; }

}  // extern "C"
