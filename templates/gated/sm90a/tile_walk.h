// Which query tiles a persistent block computes, in which order.
#pragma once

#include "device/element.h"

namespace stratum::gated::sm90a {

// One query tile of one (batch, query head).
struct QueryTile {
  int batch, head, kv_head;
  int first_row;
};

// All tiles in one order, the longest first, heads fastest, so that blocks in flight share keys in L2. Rounds of
// gridDim.x tiles go to the blocks in alternating directions: whoever had the longest of one round has the shortest of
// the next. The host sees to it that all tiles are fewer than 2^31.
struct TileWalk {
  u32 heads;  // batch x query heads
  u32 tiles;  // of a sequence
  u32 round = 0;

  __device__ __forceinline__ TileWalk(int batch, int q_heads, int seq_len, int tile_m)
      : heads(batch * q_heads), tiles((seq_len + tile_m - 1) / tile_m) {}

  // The next tile of this block; false behind the last.
  __device__ __forceinline__ bool next(QueryTile& tile, int q_heads, int kv_heads, int tile_m) {
    const u32 place = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    const u32 index = round * gridDim.x + place;
    ++round;
    if (index >= heads * tiles) return false;
    const int from_last = static_cast<int>(index / heads);
    const int head = static_cast<int>(index % heads);
    tile.batch = head / q_heads;
    tile.head = head % q_heads;
    tile.kv_head = tile.head / (q_heads / kv_heads);
    tile.first_row = (static_cast<int>(tiles) - 1 - from_last) * tile_m;
    return true;
  }
};

}  // namespace stratum::gated::sm90a
