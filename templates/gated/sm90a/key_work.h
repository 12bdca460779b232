// The tiles of the kernel whose blocks own keys, and the queries that stream by for each.
#pragma once

#include "abi/gated_sm90a.h"
#include "gated/sm90a/tile_order.h"

namespace stratum::gated::sm90a {

// dk dv dkg: tile_m keys of one kv head; the queries that see them stream by, of one head of the group after the other,
// each from the last to the first. Of a cluster's two blocks one takes the even steps, one the odd ones.
template <class Tile>
struct DkvWork {
  int batch, kv_head;
  int first;      // first key
  int low, span;  // the stream's queries: first and number, in whole tiles
  int steps;      // this block's

  STRATUM_DEVICE u32 count(const abi::GatedBackwardSm90aParams& params) {
    return u32((params.seq_len + Tile::tile_m - 1) / Tile::tile_m) * params.batch * params.kv_heads;
  }
  __device__ __forceinline__ DkvWork(const abi::GatedBackwardSm90aParams& params, u32 place, int rank) {
    const u32 heads = params.batch * params.kv_heads;
    first = place / heads * Tile::tile_m;
    batch = place % heads / u32(params.kv_heads);
    kv_head = place % heads % u32(params.kv_heads);
    const int first_tile = first / Tile::tile_n;
    const int tiles = (params.seq_len - 1) / Tile::tile_n + 1 - first_tile;
    low = first_tile * Tile::tile_n;
    span = tiles * Tile::tile_n;
    steps = (tiles * (params.q_heads / params.kv_heads) - rank + Tile::cluster - 1) / Tile::cluster;
  }
};

// The first query of a step's tile, counted from anywhere, and its head.
template <class Tile>
struct QueryStep {
  int first, head;

  __device__ __forceinline__ QueryStep(int low, int span, int head, int rank)
      : first(low + span - Tile::tile_n), head(head) {
    back(rank, low, span);
  }
  __device__ __forceinline__ void advance(int low, int span) { back(Tile::cluster, low, span); }

 private:
  __device__ __forceinline__ void back(int tiles, int low, int span) {
    first -= tiles * Tile::tile_n;
    while (first < low) {
      first += span;
      ++head;
    }
  }
};

}  // namespace stratum::gated::sm90a
