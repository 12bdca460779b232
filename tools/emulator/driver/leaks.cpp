// At the end of the process: what was never given back. Modules belong to their context and needn't be.
#include <unistd.h>

#include <cstdio>

#include "driver/state.h"

namespace stratum::emulator::driver {
namespace {

int64_t report(const State& s) {
  int64_t leaks = 0;
  const auto print = [&](const std::string& text) {
    ++leaks;
    std::fprintf(stderr, "emulator: never given back: %s\n", text.c_str());
  };
  for (const auto& [address, allocation] : s.memory.allocations) {
    if (allocation.is_held()) print(describe(allocation));
  }
  const auto count = [&](size_t live, const char* kind) {
    if (live > 0) print(std::to_string(live) + " " + kind);
  };
  count(s.streams.live(), "streams");
  count(s.events.live(), "events");
  count(s.graphs.live(), "graphs");
  count(s.execs.live(), "executable graphs");
  count(s.pools.live(), "pools");
  return leaks;
}

[[gnu::destructor]] void at_exit() {
  constexpr int kExitCode = 3;
  State& s = state();
  if (s.process != getpid() || !s.initialized || s.settings.leaks == Leaks::Ignore) return;
  if (report(s) > 0 && s.settings.leaks == Leaks::Error) _exit(kExitCode);
}

}  // namespace
}  // namespace stratum::emulator::driver
