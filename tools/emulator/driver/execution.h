// Kernels' runs.
#pragma once

#include "driver/results.h"
#include "machine/run.h"

namespace stratum::emulator::driver {

struct Function;
struct Launch;
struct State;

// What launches of a function run; kInvalidPtx, and a fault, if the pack has no such cubin or PTX that can't be
// decoded.
Result load_kernel(State& s, const Function& function, const Kernel** kernel);

// Runs a launch that was checked; nothing if kernels aren't run.
Result execute(State& s, const Function& function, const Launch& launch);

}  // namespace stratum::emulator::driver
