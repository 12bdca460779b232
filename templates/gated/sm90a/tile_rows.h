// Tiles of rows as TMA moves them: their loads and stores, sums staged for a store, a scale multiplied in.
#pragma once

#include "device/store_matrix.h"
#include "device/swizzled_tile.h"
#include "device/tma.h"
#include "device/wgmma.h"

namespace stratum::gated::sm90a {

// Multiplies a tile's elements by `scale` where it lies, as a warpgroup: rounded once to the elements' type, so exact
// where the scale is a power of two. `thread` of 128. fence_proxy_async and a barrier of the warpgroup come behind.
template <class Element, class Tile>
STRATUM_DEVICE void scale_tile(u32 tile, float scale, int thread) {
#pragma unroll
  for (int i = 0; i < Tile::bytes / 2048; ++i) {
    const u32 address = tile + thread * 16 + i * 2048;
    uint4 chunk = load_shared_16(address);
    u32* pairs = &chunk.x;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      pairs[j] = Element::pack(Element::low(pairs[j]) * scale, Element::high(pairs[j]) * scale);
    }
    store_shared_16(address, chunk);
  }
}

// Rounds a warp's 16 rows of sums, times the scales of the thread's two rows, to elements and puts them into its rows
// of `tile`, as TMA stores take them.
template <class Element, class Tile>
STRATUM_DEVICE void stage_rows(u32 tile, const float (&sums)[Tile::columns / 2], const float (&scale)[2], int warp,
                               int lane) {
  const int row = warp * 16 + (lane & 15);
#pragma unroll
  for (int k = 0; k < Tile::columns / 16; ++k) {
    u32 packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      packed[i] = Element::pack(sums[8 * k + 2 * i] * scale[i % 2], sums[8 * k + 2 * i + 1] * scale[i % 2]);
    }
    constexpr int chunks = Tile::block_columns / 8;
    const u32 address =
        tile + 2 * k / chunks * Tile::block_bytes + Tile::chunk_offset(row, 2 * k % chunks + (lane >> 4));
    StoreOperand<Tile>::store(address, packed);
  }
}

// Starts the store of 64 staged rows. One thread.
template <class Tile>
STRATUM_DEVICE void store_rows(const abi::TensorMap& map, u32 tile, int head, int row, int batch) {
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) {
    tma_store(map, tile + block * Tile::block_bytes, block * Tile::block_columns, head, row, batch);
  }
}

// Starts the load of a tile of rows. One thread.
template <class Tile>
STRATUM_DEVICE void load_rows(u32 tile, const abi::TensorMap& map, u32 barrier, int head, int row, int batch) {
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) {
    tma_load(tile + block * Tile::block_bytes, map, barrier, block * Tile::block_columns, head, row, batch);
  }
}

// Sums start at 0, and in registers before any product adds to them.
template <int kCount>
STRATUM_DEVICE void clear(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = 0.f;
  hold(sums);
}

}  // namespace stratum::gated::sm90a
