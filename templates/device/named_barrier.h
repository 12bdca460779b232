// Named barriers: hand-overs between groups of warps of one block. Barrier 0 is __syncthreads; 1 ... 15 are free.
//
// A barrier completes when `kThreads` threads have come, those that wait and those that only arrive; then it is new.
// Whoever waits sees all that the others wrote to shared memory before they came, and may overwrite what they had read.
// Nobody may come again before the barrier has completed: the caller must see to that by another barrier between.
#pragma once

#include "device/element.h"

namespace stratum {

template <int kThreads>
STRATUM_DEVICE void named_barrier_sync(int id) {
  static_assert(kThreads % 32 == 0, "barriers count whole warps");
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}

template <int kThreads>
STRATUM_DEVICE void named_barrier_arrive(int id) {
  static_assert(kThreads % 32 == 0, "barriers count whole warps");
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}

}  // namespace stratum
