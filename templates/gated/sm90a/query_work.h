// The tiles of the kernels whose blocks own queries.
#pragma once

#include "gated/sm90a/tile_order.h"

namespace stratum::gated::sm90a {

// forward, dq: tile_m queries of one head, and the keys they see.
template <class Tile>
struct QueryWork {
  int batch, head, kv_head;  // of the queries; of the keys
  int first, steps;          // first query; key tiles

  template <class Params>
  STRATUM_DEVICE u32 count(const Params& params) {
    return u32((params.seq_len + Tile::tile_m - 1) / Tile::tile_m) * params.batch * params.q_heads;
  }
  template <class Params>
  __device__ __forceinline__ QueryWork(const Params& params, u32 place) {
    const u32 heads = params.batch * params.q_heads;
    first = ((params.seq_len + Tile::tile_m - 1) / Tile::tile_m - 1 - place / heads) * Tile::tile_m;
    batch = place % heads / u32(params.q_heads);
    head = place % heads % u32(params.q_heads);
    kv_head = head / (params.q_heads / params.kv_heads);
    steps = (min(first + Tile::tile_m, params.seq_len) + Tile::tile_n - 1) / Tile::tile_n;
  }
};

}  // namespace stratum::gated::sm90a
