// Functions: a module's kernels.
#pragma once

#include <cstdint>

#include "driver/results.h"

namespace stratum::emulator::driver {

struct Function;
struct State;

// How many blocks of a kernel a multiprocessor of its device holds at a time, in *blocks.
Result resident_blocks(State& s, const Function& function, uint32_t threads, uint64_t dynamic_shared, int* blocks);

}  // namespace stratum::emulator::driver
