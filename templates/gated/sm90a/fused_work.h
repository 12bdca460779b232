// The tiles of the fused backward, and the order in which they add to a query tile's sums.
//
// Blocks own tile_m keys of one kv head; their dq and dqg are added, key tile after key tile, to sums in global memory.
// So that nobody waits long for its turn, every block walks over the queries in such an order that no two blocks of a
// head come to the same queries at the same time:
//
//   even heads   queries ascend, so key tile j comes to query tile i at step i - j: the last key tile adds first
//   odd heads    queries descend from the last, and key tiles begin one after the other: key tile 0 adds first
//
// A block takes key tile j of an even head and then n - 1 - j of the odd head behind it: all have equal work, and
// whoever is through with the even head's short tile soonest begins with the odd head's long one.
//
// A tile waits for tiles at earlier places only. With a block for every pair of tiles those are tiles of blocks with
// lower numbers, which begin first: whatever else runs on the GPU, no block waits for one that can't begin.
#pragma once

#include "abi/gated_sm90a.h"
#include "device/element.h"

namespace stratum::gated::sm90a {

template <class Tile>
struct FusedWork {
  int batch, kv_head;
  int q_head;  // the group's first, of all batches'
  int key_tile;
  int span;   // queries that see the keys, in whole tiles of the stream
  int steps;  // over the group's heads
  bool ascends;

  // Of all places; some are empty if the number of heads is odd.
  STRATUM_DEVICE u32 count(const abi::GatedBackwardSm90aParams& params) {
    return (u32(params.batch) * params.kv_heads + 1) / 2 * key_tiles(params) * 2;
  }
  __device__ __forceinline__ FusedWork(const abi::GatedBackwardSm90aParams& params, u32 place) {
    const u32 tiles = key_tiles(params);
    const u32 head = place / 2 / tiles * 2 + place % 2;
    ascends = place % 2 == 0;
    key_tile = ascends ? tiles - 1 - place / 2 % tiles : place / 2 % tiles;
    batch = head / u32(params.kv_heads);
    kv_head = head % u32(params.kv_heads);
    span = (u32(params.seq_len - 1) / Tile::tile_n + 1) * Tile::tile_n - key_tile * Tile::tile_m;
    const u32 group = u32(params.q_heads) / u32(params.kv_heads);
    q_head = head * group;
    steps = batch < params.batch ? u32(span) / Tile::tile_n * group : 0;
  }

 private:
  STRATUM_DEVICE u32 key_tiles(const abi::GatedBackwardSm90aParams& params) {
    return u32(params.seq_len + Tile::tile_m - 1) / Tile::tile_m;
  }
};

// The places that a block takes, one after the other: the two of a pair, then a pair as many further as there are
// blocks.
struct FusedOrder {
  u32 place = 2 * blockIdx.x;
  __device__ __forceinline__ void advance() { place += place % 2 == 0 ? 1 : 2 * gridDim.x - 1; }
};

// The queries of a step: the first one, counted from the block's first key, and their head in the group.
template <class Tile>
struct FusedStep {
  int first, head = 0;
  __device__ __forceinline__ explicit FusedStep(const FusedWork<Tile>& work)
      : first(work.ascends ? 0 : work.span - Tile::tile_n) {}
  __device__ __forceinline__ void advance(const FusedWork<Tile>& work) {
    first += work.ascends ? Tile::tile_n : -Tile::tile_n;
    if (u32(first) >= u32(work.span)) {
      first = work.ascends ? 0 : work.span - Tile::tile_n;
      ++head;
    }
  }
};

}  // namespace stratum::gated::sm90a
