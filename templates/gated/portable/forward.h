// Forward over a dense batch: o and the softmax statistics that backward needs. The pipeline is attend.h's.
#pragma once

#include "gated/portable/dense.h"

namespace stratum::gated {

// Grid: query tiles x batch x q_heads in one dimension, heads fastest, so that blocks in flight share keys in L2; the
// longest tiles come first.
template <class Tile>
STRATUM_DEVICE void forward(const abi::GatedForwardParams& params) {
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 heads = static_cast<u32>(params.batch) * params.q_heads;
  const int num_tiles = (params.seq_len + Tile::tile_m - 1) / Tile::tile_m;
  const int tile = num_tiles - 1 - static_cast<int>(blockIdx.x / heads);
  const int batch = static_cast<int>(blockIdx.x % heads) / params.q_heads;
  const int head = static_cast<int>(blockIdx.x % heads) % params.q_heads;
  const int kv_head = head / (params.q_heads / params.kv_heads);
  const int first = tile * Tile::tile_m;

  const DenseKeys keys{dense_rows(params.k, batch, kv_head, 0), dense_rows(params.v, batch, kv_head, 0),
                       dense_rows(params.kg, batch, kv_head, 0), params.seq_len};
  const QueryRows query{
      .q = dense_rows(params.q, batch, head, first),
      .qg = dense_rows(params.qg, batch, head, first),
      .valid = min(Tile::tile_m, params.seq_len - first),
      .first_position = first,
      .num_keys = params.seq_len,
  };
  const Scales scales{params.softmax_scale_log2, params.gate_half_scale};
  attend<Tile>(shared_address(shared_memory), keys, query, scales, [&] {
    const Rows o = dense_rows(params.o, batch, head, first);
    const i64 row = (static_cast<i64>(batch) * params.q_heads + head) * params.seq_len + first;
    return ResultRows{const_cast<u16*>(o.data), o.stride, params.stats + row};
  });
}

}  // namespace stratum::gated
