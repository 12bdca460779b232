#include "driver/state.h"

#include <unistd.h>

#include <cstdio>

namespace stratum::emulator::driver {

Device::Device(int ordinal, const DeviceFacts& facts)
    : facts(facts),
      context{ordinal},
      legacy{.device = this, .id = static_cast<uint64_t>(2 * ordinal + 1)},
      per_thread{.device = this, .id = static_cast<uint64_t>(2 * ordinal + 2)},
      default_pool{.device = this} {}

State::State()
    : settings(Settings::from_environment()),
      process(getpid()),
      execute(settings.execute),
      random(settings.seed),
      failure(settings.failure) {
  for (const auto& [major, minor] : settings.capabilities) {
    DeviceFacts facts = *device_facts(major, minor);
    if (settings.multiprocessors != 0) facts.multiprocessors = settings.multiprocessors;
    devices.push_back(std::make_unique<Device>(static_cast<int>(devices.size()), facts));
  }
}

void State::fault(std::string text) {
  std::fprintf(stderr, "emulator: %s\n", text.c_str());
  faults.push_back(std::move(text));
}

Result State::refuse(Result code, std::string text) {
  fault(std::move(text));
  return code;
}

std::vector<Stream*> State::streams_of(const Device& device) const {
  std::vector<Stream*> found = {const_cast<Stream*>(&device.legacy), const_cast<Stream*>(&device.per_thread)};
  for (Stream* stream : streams.all()) {
    if (stream->device == &device) found.push_back(stream);
  }
  return found;
}

Stream* State::find_stream(Device& device, const void* handle, const char* function) {
  constexpr uintptr_t kLegacy = 1, kPerThread = 2;
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == 0 || value == kLegacy) return &device.legacy;
  if (value == kPerThread) return &device.per_thread;
  Stream* stream = streams.find(handle);
  if (stream != nullptr && stream->device == &device) return stream;
  if (function == nullptr) return nullptr;
  fault(std::string(function) + (stream == nullptr ? " on an unknown stream" : " on another device's stream"));
  return nullptr;
}

State& state() {
  static State& instance = *new State;  // usable until the very end of the process
  return instance;
}

ThreadState& thread_state() {
  thread_local ThreadState instance;
  return instance;
}

}  // namespace stratum::emulator::driver
