// A vote of a whole warpgroup, at a named barrier.
#pragma once

#include "device/element.h"

namespace stratum {

// Whether any of the kThreads threads that come to the barrier says so; the same for all, which have all come then.
template <int kThreads>
STRATUM_DEVICE bool named_barrier_any(int id, bool vote) {
  static_assert(kThreads % 32 == 0, "barriers count whole warps");
  u32 any;
  asm volatile(
      "{.reg .pred mine, any; setp.ne.u32 mine, %1, 0; barrier.cta.red.or.pred any, %2, %3, mine; selp.u32 %0, 1, 0, "
      "any;}"
      : "=r"(any)
      : "r"(static_cast<u32>(vote)), "r"(id), "n"(kThreads)
      : "memory");
  return any != 0;
}

}  // namespace stratum
