// What a plan fixes of the fused backward: backward_dkv's tile, and in shared memory the gradients and the sums of
// queries that pass through it.
#pragma once

#include "gated/sm90a/backward_tile.h"
#include "gated/sm90a/query_tiles.h"

namespace stratum::gated::sm90a {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, int kStages, int kPacking>
struct FusedTile : BackwardTile<Element_, kHeadDim, kGateDim, kTileM, kTileN, kStages, 1, kPacking, true, 1> {
  using Base = BackwardTile<Element_, kHeadDim, kGateDim, kTileM, kTileN, kStages, 1, kPacking, true, 1>;
  static_assert(kTileM == 128 && kTileN == 64, "two consumers, and sums of queries that are one wgmma high");

  static constexpr int stats_warps = 0;  // statistics are copied like tiles

  // dS^T and dT^T of a step, of each consumer's keys: rows of keys, as A of dQ and dQg. Steps take the buffers in turn.
  using Gradient = SwizzledTile<64, 64>;
  static constexpr int gradient_buffers = 3;
  STRATUM_DEVICE int gradients_before(int buffer, int steps) {
    return buffer < steps ? buffer + 3 - steps : buffer - steps;
  }
  static constexpr int gradients_at = Base::stages_at + kStages * Base::stage_bytes;
  STRATUM_DEVICE int gradient_at(int buffer, bool of_gate, int consumer) {
    return gradients_at + ((buffer * 2 + of_gate) * 2 + consumer) * Gradient::bytes;
  }
  // dQ (by consumer 1) and dQg (by consumer 0) of a step: 16 bytes of thread t, then t + 1 ..., in shared memory as in
  // the workspace.
  using Tiles = QueryTiles<kHeadDim, kGateDim>;
  static_assert(Tiles::queries == kTileN && Tiles::stats_bytes == Base::stats_bytes, "a step is a tile of queries");
  static constexpr int sums_bytes = Tiles::dq_bytes + Tiles::dqg_bytes;
  static constexpr int sums_at = gradients_at + 4 * gradient_buffers * Gradient::bytes;
  STRATUM_DEVICE int dq_at(int place) { return sums_at + place * sums_bytes; }
  STRATUM_DEVICE int dqg_at(int place) { return dq_at(place) + Tiles::dq_bytes; }

  static constexpr int stats_at = sums_at + 2 * sums_bytes;
  static constexpr int barriers_at = stats_at + kStages * Base::stats_bytes;
  static constexpr int shared_bytes = barriers_at + (2 * kStages + 14) * 8;
};

template <class Tile>
struct FusedBarriers : BackwardBarriers<Tile> {
  // Of a place of the sums that consumer `consumer` forms.
  __device__ __forceinline__ u32 sum_full(int place, int consumer) const {
    return this->sums_read() + 8 + 8 * (place * 2 + consumer);
  }
  __device__ __forceinline__ u32 sum_empty(int place, int consumer) const { return sum_full(place, consumer) + 32; }

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < 4; ++i) {
      mbarrier_init(sum_full(i / 2, i % 2), 4);
      mbarrier_init(sum_empty(i / 2, i % 2), 1);
    }
    BackwardBarriers<Tile>::init();
  }
};

}  // namespace stratum::gated::sm90a
