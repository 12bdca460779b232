// Where the keys, values and gate keys of a sequence lie in the paged cache.
//
//     position p of a sequence ──▶ page = block_table[sequence][p / 64], row = p % 64
//     block(page, kv head)     ──▶ k [64][head_dim] | v [64][head_dim] | kg [64][gate_dim], contiguous
//
// Offsets are formed in 64 bits: a cache may hold more than 2^31 elements.
#pragma once

#include "abi/gated.h"
#include "device/cp_async.h"
#include "device/shared_tile.h"

namespace stratum::gated {

// The inside of one block, in elements.
template <int kHeadDim, int kGateDim>
struct CacheBlock {
  static constexpr int k = 0;
  static constexpr int v = abi::kPageTokens * kHeadDim;
  static constexpr int kg = 2 * abi::kPageTokens * kHeadDim;
  static constexpr int elements = abi::kPageTokens * (2 * kHeadDim + kGateDim);

  // Where block(page, kv_head) starts in the cache.
  STRATUM_DEVICE i64 offset(i32 page, i32 kv_head, i32 kv_heads) {
    return (static_cast<i64>(page) * kv_heads + kv_head) * elements;
  }
};

// The pages of one sequence: its row of the block table.
STRATUM_DEVICE const i32* sequence_pages(const i32* block_table, i32 sequence, i32 table_stride) {
  return block_table + static_cast<i64>(sequence) * table_stride;
}

// Starts one warp's copy of `Tile::rows` rows of a block, contiguous from `source`, into a shared tile. Rows from
// `valid` on become zeros and are never read, since nothing may have written them; their addresses stay in the block.
template <class Tile>
STRATUM_DEVICE void copy_block_rows_async(u32 destination, const u16* source, int valid, int lane) {
  constexpr int chunks = Tile::rows * Tile::chunks_per_row;  // of 16 bytes
  constexpr int steps = (chunks + 31) / 32;
  if constexpr (32 % Tile::chunks_per_row == 0 && chunks % 32 == 0) {
    // Every step moves down by whole rows. The address is an integer so that the compiler keeps it as one sum, of which
    // the step is a constant part of the instruction; from a pointer and a lane it would make bit operations a step.
    constexpr int step_rows = 32 / Tile::chunks_per_row;
    const int row = lane / Tile::chunks_per_row;
    const u64 from = reinterpret_cast<u64>(source) + lane * 16;
    const u32 to = destination + row * Tile::row_bytes + lane % Tile::chunks_per_row * 16;
    const int valid_below = valid - row;
#pragma unroll
    for (int i = 0; i < steps; ++i) {
      cp_async_16(to + i * step_rows * Tile::row_bytes, reinterpret_cast<const void*>(from + i * 512),
                  i * step_rows < valid_below);
    }
  } else {
#pragma unroll
    for (int i = 0; i < steps; ++i) {
      const int chunk = i * 32 + lane;
      const int row = chunk / Tile::chunks_per_row;
      const int column = chunk % Tile::chunks_per_row;
      if (chunks % 32 == 0 || chunk < chunks) {
        cp_async_16(destination + row * Tile::row_bytes + column * 16, source + chunk * 8, row < valid);
      }
    }
  }
}

}  // namespace stratum::gated
