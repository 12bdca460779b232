// Barriers in shared memory on which asynchronous copies and threads report (sm_90 on).
//
// A phase of a barrier completes when its count of arrivals has come and as many bytes as were announced have landed.
// A wait names the parity of the phase it waits for, and returns at once if that phase is over: the first phase has
// parity 0, and waiting for parity 1 of a fresh barrier passes.
#pragma once

#include "device/element.h"

namespace stratum {

// Each phase completes with `count` arrivals. One thread does it; mbarrier_init_fence and a barrier of the block come
// before anybody else's use.
STRATUM_DEVICE void mbarrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Makes the initialised barriers visible to asynchronous copies and to the cluster.
STRATUM_DEVICE void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

STRATUM_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One arrival that announces the bytes which copies will bring.
STRATUM_DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

STRATUM_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni over;\n"
      "bra.uni again;\n"
      "over:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Where somebody is in a ring of `kStages` stages: the stage, and the parity of its barriers' phase in this round. Who
// fills the ring waits for the opposite parity of "empty".
template <int kStages>
struct RingPosition {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace stratum
