// Puts accumulators that were packed as an A operand (16 rows by 16 columns) back into a shared tile: one stmatrix
// where there is one (sm_90 on), else four stores. Both are free of bank conflicts, by SharedTile's padding.
#pragma once

#include "device/shared_tile.h"

namespace stratum {

template <class Tile>
struct StoreOperand {
#if __CUDA_ARCH__ >= 900
  // This lane's byte offset for the block at (row 0, column 0).
  STRATUM_DEVICE u32 lane_offset(int lane) { return (lane & 15) * Tile::row_bytes + (lane >> 4) * 16; }

  STRATUM_DEVICE void store(u32 address, const u32 (&a)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]),
                 "r"(a[1]), "r"(a[2]), "r"(a[3])
                 : "memory");
  }
#else
  STRATUM_DEVICE u32 lane_offset(int lane) { return (lane >> 2) * Tile::row_bytes + (lane & 3) * 4; }

  STRATUM_DEVICE void store(u32 address, const u32 (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) store_shared(address + (i % 2) * 8 * Tile::row_bytes + (i / 2) * 16, a[i]);
  }
#endif
};

}  // namespace stratum
