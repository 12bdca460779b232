// Plain runs of bytes between global and shared memory by the bulk copy engine (sm_90 on). Addresses and sizes are
// multiples of 16. Loads count for a barrier's current phase, like tma_load's; what leaves shared memory belongs to the
// thread's bulk group (tma.h).
#pragma once

#include "device/element.h"

namespace stratum {

STRATUM_DEVICE void bulk_load(u32 destination, const void* source, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

STRATUM_DEVICE void bulk_store(void* destination, u32 source, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination), "r"(source), "r"(bytes)
               : "memory");
}

// Each float is added once, in no order among those that add to it at the same time.
STRATUM_DEVICE void bulk_add(float* destination, u32 source, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(destination),
               "r"(source), "r"(bytes)
               : "memory");
}

}  // namespace stratum
