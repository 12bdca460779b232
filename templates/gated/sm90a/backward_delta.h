// What the fused backward needs first: the statistics of every query in the form that its arithmetic takes them, delta
// included, and no key tile added to any queries.
#pragma once

#include "gated/sm90a/backward_pair.h"
#include "gated/sm90a/query_tiles.h"
#include "gated/sm90a/row_delta.h"

namespace stratum::gated::sm90a {

// A block does one tile of kQueries queries, four lanes a query.
template <class Element, int kHeadDim, int kGateDim, int kQueries>
STRATUM_DEVICE void backward_delta(const abi::GatedBackwardSm90aParams& params) {
  using Tiles = QueryTiles<kHeadDim, kGateDim>;
  static_assert(Tiles::queries == kQueries, "the workspace's tiles");
  const u32 tiles = Tiles::per_head(params);
  const u32 head = blockIdx.x / tiles;
  const int in_tile = threadIdx.x / 4;
  const int row = blockIdx.x % tiles * Tiles::queries + in_tile;
  const float delta = row_delta<Element, kHeadDim>(params, head / u32(params.q_heads), head % u32(params.q_heads), row,
                                                   threadIdx.x & 31);
  const abi::RowStats stored = row < params.seq_len ? params.stats[i64(head) * params.seq_len + row] : kNoRow;
  const QueryStats stats = QueryStats::of(stored, delta, params.softmax_scale_log2);
  const bool far_out = __any_sync(0xffffffffu, stats.reduce != 0.f);
  float* to = reinterpret_cast<float*>(Tiles::stats(params, blockIdx.x));
  if (threadIdx.x % 4 == 0) {
    to[in_tile] = stats.offset;
    to[Tiles::queries + in_tile] = stats.minus_delta2;
    to[2 * Tiles::queries + in_tile] = stats.reduce;
  }
  // Two words say whether a query is far out, a byte for each warp; the next is the count of key tiles.
  u8* flags = reinterpret_cast<u8*>(to + 3 * Tiles::queries);
  if (threadIdx.x % 32 == 0) flags[threadIdx.x / 32] = far_out;
  if (threadIdx.x == 0) *reinterpret_cast<uint2*>(flags + 8) = {0, 0};
}

}  // namespace stratum::gated::sm90a
