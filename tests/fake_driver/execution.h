// What a launch does once it was checked and recorded.
#pragma once

#include "state.h"

namespace fake {

// Runs a kernel; a CUDA result. Of two definitions a library links one: libfakecuda.so runs nothing (no_execution.cpp),
// the emulator the PTX that was packed beside the kernel's cubin (tools/emulator/driver/execution.cpp).
int execute(State& s, const Function& function, const Launch& launch);

}  // namespace fake
