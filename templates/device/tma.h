// Tensor copies between global and shared memory, run by the TMA unit (sm_90 on).
//
// One thread starts a copy of the map's box at coordinates (column, head, row, batch) of an array [batch, row, head,
// column]. Elements outside the array arrive as zeros, and are not written. A box's rows lie after each other in shared
// memory, 128 or 64 bytes each, swizzled as the map says: 16-byte chunk c of row r is at chunk c ^ (r % 8) for rows of
// 128 bytes, c ^ (r / 2 % 4) for 64.
#pragma once

#include "abi/tensor_map.h"
#include "device/element.h"

namespace stratum {

// The bytes that land count for the barrier's current phase.
STRATUM_DEVICE void tma_load(u32 destination, const abi::TensorMap& map, u32 barrier, int column, int head, int row,
                             int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(column), "r"(head), "r"(row), "r"(batch)
      : "memory");
}

// Belongs to the thread's bulk group; what threads wrote to `source` must be behind fence_proxy_async.
STRATUM_DEVICE void tma_store(const abi::TensorMap& map, u32 source, int column, int head, int row, int batch) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(source), "r"(column), "r"(head), "r"(row), "r"(batch)
               : "memory");
}

STRATUM_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the thread's latest `kPending` groups have read their sources.
template <int kPending>
STRATUM_DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Waits until all of the thread's groups have written what they store.
STRATUM_DEVICE void bulk_wait_all() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Orders this thread's earlier accesses of shared memory before later ones of TMA and wgmma.
STRATUM_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same for global memory too.
STRATUM_DEVICE void fence_proxy_async_all() { asm volatile("fence.proxy.async;" ::: "memory"); }

}  // namespace stratum
