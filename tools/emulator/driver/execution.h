// What a launch does once it was checked and recorded.
#pragma once

#include "driver/state.h"

namespace stratum::emulator::driver {

// Runs a kernel by the PTX that was packed beside its cubin, or does nothing if STRATUM_EMULATOR_EXECUTE=0. A CUDA
// result.
int execute(State& s, const Function& function, const Launch& launch);

}  // namespace stratum::emulator::driver
