// The fused backward's workspace. For every 64 queries of every head: the sums dQ and dQg in float32, as consumers lay
// them out (backward_fused_tile.h), and the queries' statistics in the form that a stage takes them (query_stats.h),
// behind whose flags a word counts the key tiles that were added to the sums so far.
#pragma once

#include "abi/gated_sm90a.h"
#include "device/element.h"

namespace stratum::gated::sm90a {

template <int kHeadDim, int kGateDim>
struct QueryTiles {
  static constexpr int queries = 64;
  static constexpr int dq_bytes = queries * kHeadDim * 4;
  static constexpr int dqg_bytes = queries * kGateDim * 4;
  static constexpr int stats_bytes = queries * 12 + 16;
  static constexpr int bytes = dq_bytes + dqg_bytes + stats_bytes;
  static_assert(bytes == abi::query_tile_bytes(kHeadDim, kGateDim));

  // The number of a tile, and where it lies. `head` counts over all batches.
  STRATUM_DEVICE u32 per_head(const abi::GatedBackwardSm90aParams& params) {
    return u32(params.seq_len - 1) / queries + 1;
  }
  STRATUM_DEVICE u32 number(const abi::GatedBackwardSm90aParams& params, int head, int row) {
    return u32(head) * per_head(params) + u32(row) / queries;
  }
  STRATUM_DEVICE u8* dq(const abi::GatedBackwardSm90aParams& params, u32 tile) {
    return params.query_tiles + u64(tile) * bytes;
  }
  STRATUM_DEVICE u8* dqg(const abi::GatedBackwardSm90aParams& params, u32 tile) { return dq(params, tile) + dq_bytes; }
  STRATUM_DEVICE u8* stats(const abi::GatedBackwardSm90aParams& params, u32 tile) {
    return dqg(params, tile) + dqg_bytes;
  }
  STRATUM_DEVICE u32* key_tiles_added(const abi::GatedBackwardSm90aParams& params, u32 tile) {
    return reinterpret_cast<u32*>(stats(params, tile) + queries * 12 + 8);
  }
};

}  // namespace stratum::gated::sm90a
