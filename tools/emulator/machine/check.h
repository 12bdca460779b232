// The kinds of fault that a launch can end with.
#pragma once

namespace stratum::emulator {

enum class Check {
  Operand,     // a value that the instruction doesn't take
  Misaligned,  // an address that isn't a multiple of what the access needs
  Bounds,      // memory that isn't the launch's to use
  Freed,       // memory that was given back
  Unwritten,   // a value that nobody wrote is used
  Race,        // two accesses, one of them a write, that nothing orders
  Converged,   // lanes that must execute an instruction together don't
  Barrier,     // a barrier that doesn't exist, or arrivals that disagree
  InFlight,    // registers that an asynchronous product uses are touched, or it is not waited for
  Deadlock,    // every warp waits
  Limit,       // more instructions than the launch was given
};

inline const char* name_of(Check check) {
  constexpr const char* kNames[] = {"operand",   "misaligned", "bounds",    "freed",    "unwritten", "race",
                                    "converged", "barrier",    "in flight", "deadlock", "limit"};
  return kNames[static_cast<int>(check)];
}

}  // namespace stratum::emulator
