// Moves registers between the warpgroups of a block (sm_90a on). All warps of a warpgroup execute it.
//
// A block starts with the same number for every thread; what some give up, others can take, and whoever takes waits for
// it. The sum over all threads must not pass what the launch allocated.
#pragma once

#include "device/element.h"

namespace stratum {

template <int kRegisters>
STRATUM_DEVICE void register_decrease() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
STRATUM_DEVICE void register_increase() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace stratum
