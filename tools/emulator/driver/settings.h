// What the environment chooses: the STRATUM_EMULATOR_* variables (docs/emulator.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "machine/options.h"

namespace stratum::emulator::driver {

// When queued work runs: at once, not before something waits for it, or at random moments in between.
enum class Schedule { Eager, Late, Random };

enum class Leaks { Ignore, Report, Error };

// The nth call of a function (1 is the next one) fails with a code; nth 0: none does.
struct Failure {
  std::string function;
  int64_t nth = 0;
  int code = 0;
};

struct Settings {
  std::vector<std::pair<int, int>> capabilities = {{8, 0}};  // major, minor; one a device
  int multiprocessors = 0;                                   // a device; 0: as many as its part has
  std::string pack;  // a folder; empty: beside the libstratum.so that is loaded
  Mma mma = Mma::Exact;
  bool execute = true;
  Schedule schedule = Schedule::Eager;
  uint64_t seed = 0;
  Failure failure;
  std::string log;  // a file; empty: none
  Leaks leaks = Leaks::Report;

  // Reads the environment. A malformed value ends the process, with a line on stderr that says what was expected.
  static Settings from_environment();
};

}  // namespace stratum::emulator::driver
