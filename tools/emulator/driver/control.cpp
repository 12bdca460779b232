// What tests ask of the emulator: emulator.h.
#include <algorithm>
#include <cstring>

#include "driver/emulator.h"
#include "driver/state.h"

namespace {

using namespace stratum::emulator::driver;

int64_t count_memory(const State& s, bool pinned) {
  return std::ranges::count_if(s.memory,
                               [&](const auto& entry) { return entry.second.live && entry.second.pinned == pinned; });
}

}  // namespace

extern "C" {

void emulator_reset(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.launches.clear();
  s.faults.clear();
  s.calls.clear();
  s.fail_in = 0;
}

void emulator_fail(const char* function, int64_t nth, int32_t code) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.fail_function = function;
  s.fail_in = nth;
  s.fail_code = code;
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
  return 1;
}

int64_t emulator_live(const char* kind) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const std::string_view name = kind;
  if (name == "device") return count_memory(s, false);
  if (name == "pinned") return count_memory(s, true);
  if (name == "event") return static_cast<int64_t>(s.events.size());
  if (name == "module") return static_cast<int64_t>(s.modules.size());
  return -1;
}

int64_t emulator_live_bytes(void) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int64_t bytes = 0;
  for (const auto& [address, allocation] : s.memory) {
    if (allocation.live && !allocation.pinned) bytes += static_cast<int64_t>(allocation.bytes);
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

uint64_t emulator_stream_create(int32_t device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto* stream = new Stream{device, s.next_stream_id++, {}};
  s.streams.insert(stream);
  return reinterpret_cast<uint64_t>(stream);
}

void emulator_stream_destroy(uint64_t handle) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (s.streams.erase(stream) == 0) {
    s.fault("destruction of an unknown stream");
    return;
  }
  delete stream;
}

int32_t emulator_stream_capture(uint64_t handle, int32_t begin) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (!s.streams.contains(stream) || stream->capture.has_value() == (begin != 0)) {
    s.fault("capture of an unknown stream, begun twice or never begun");
    return 0;
  }
  if (begin != 0) {
    stream->capture.emplace();
    return 1;
  }
  const bool whole = !stream->capture->broken;
  stream->capture.reset();
  return whole ? 1 : 0;
}

void emulator_set_current_device(int32_t device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto& contexts = thread_state().contexts;
  if (!contexts.empty()) contexts.pop_back();
  if (device >= 0) contexts.push_back(&s.devices.at(device)->context);
  s.initialized = true;
}

int32_t emulator_current_device(void) {
  const auto& contexts = thread_state().contexts;
  return contexts.empty() ? -1 : contexts.back()->device;
}

int64_t emulator_context_depth(void) { return static_cast<int64_t>(thread_state().contexts.size()); }

int32_t stratum_driver_host_memory(void) { return 1; }

}  // extern "C"
