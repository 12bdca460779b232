#include "driver/state.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace stratum::emulator::driver {

int Device::max_dynamic_shared() const {
  if (major == 8 && minor == 0) return 166912;
  return major == 9 || major == 10 ? 232448 : 101376;
}

State::State() : process(getpid()) {
  const char* chosen = std::getenv("STRATUM_EMULATOR_EXECUTE");
  const std::string_view execution = chosen != nullptr ? chosen : "1";
  if (execution != "0" && execution != "1") {
    std::fprintf(stderr, "emulator: STRATUM_EMULATOR_EXECUTE: expected 0 or 1, got '%s'\n", chosen);
    std::abort();
  }
  execute = execution == "1";
  const char* capabilities = std::getenv("STRATUM_EMULATOR_CC");
  std::istringstream list(capabilities != nullptr ? capabilities : "8.0");
  for (std::string item; std::getline(list, item, ',');) {
    const int ordinal = static_cast<int>(devices.size());
    auto device = std::make_unique<Device>();
    if (std::sscanf(item.c_str(), "%d.%d", &device->major, &device->minor) != 2) {
      std::fprintf(stderr, "emulator: STRATUM_EMULATOR_CC has %s, expected MAJOR.MINOR\n", item.c_str());
      std::abort();
    }
    device->context.device = ordinal;
    device->default_stream = {ordinal, static_cast<uint64_t>(2 * ordinal + 1), {}};
    device->per_thread_stream = {ordinal, static_cast<uint64_t>(2 * ordinal + 2), {}};
    devices.push_back(std::move(device));
  }
}

void State::fault(std::string text) {
  std::fprintf(stderr, "emulator: %s\n", text.c_str());
  faults.push_back(std::move(text));
}

std::map<uintptr_t, Allocation>::iterator State::find_entry(uintptr_t address) {
  auto next = memory.upper_bound(address);
  if (next == memory.begin()) return memory.end();
  --next;
  return address - next->first < next->second.bytes ? next : memory.end();
}

const Allocation* State::find(uintptr_t address) const {
  const auto found = const_cast<State*>(this)->find_entry(address);
  return found == memory.end() ? nullptr : &found->second;
}

bool State::capturing() const {
  for (const Stream* stream : streams) {
    if (stream->capture) return true;
  }
  return false;
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
