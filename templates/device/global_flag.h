// A number in global memory by which blocks hand work to each other.
#pragma once

#include "device/element.h"

namespace stratum {

// What was written before the release of the value that is read is seen behind it.
STRATUM_DEVICE u32 load_acquire(const u32* flag) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

STRATUM_DEVICE void store_release(u32* flag, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

}  // namespace stratum
