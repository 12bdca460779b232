// What backward_dkv's producer warps bring: query tiles, their statistics, and the block's own keys.
#pragma once

#include "gated/sm90a/backward_tile.h"
#include "gated/sm90a/key_work.h"
#include "gated/sm90a/query_stats.h"
#include "gated/sm90a/tile_rows.h"

namespace stratum::gated::sm90a {

// One thread: Q, dO and Qg of one step after the other into the ring.
template <class Tile>
STRATUM_DEVICE void produce_query_stream(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                         const BackwardBarriers<Tile>& barriers, int rank) {
  RingPosition<Tile::stages> ring;
  for (TileOrder<Tile::cluster> order; order.place() < DkvWork<Tile>::count(params); ++order.round) {
    const DkvWork<Tile> work(params, order.place(), rank);
    QueryStep<Tile> query(work.low, work.span, work.kv_head * (params.q_heads / params.kv_heads), rank);
#pragma unroll 1
    for (int steps = work.steps; steps > 0; --steps, query.advance(work.low, work.span)) {
      const u32 full = barriers.full(ring.stage);
      const u32 stage = shared + Tile::stages_at + ring.stage * Tile::stage_bytes;
      mbarrier_wait(barriers.empty(ring.stage), ring.parity ^ 1);
      mbarrier_arrive_expect(full, Tile::stage_bytes);
      load_rows<typename Tile::StreamGate>(stage + Tile::stage_gate_at, params.qg, full, query.head, query.first,
                                           work.batch);
      load_rows<typename Tile::Stream>(stage, params.q, full, query.head, query.first, work.batch);
      load_rows<typename Tile::Stream>(stage + Tile::stage_second_at, params.dout, full, query.head, query.first,
                                       work.batch);
      ring.advance();
    }
  }
}

// All lanes of two warps, lane `row` of 64. Statistics are read before the stage is free.
template <class Tile>
STRATUM_DEVICE void produce_query_stats(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                        const BackwardBarriers<Tile>& barriers, int row, int rank) {
  constexpr int rows = (Tile::tile_n + 63) / 64;
  RingPosition<Tile::stages> ring;
  for (TileOrder<Tile::cluster> order; order.place() < DkvWork<Tile>::count(params); ++order.round) {
    const DkvWork<Tile> work(params, order.place(), rank);
    const int group = params.q_heads / params.kv_heads;
    QueryStep<Tile> query(work.low, work.span, (work.batch * params.kv_heads + work.kv_head) * group, rank);
#pragma unroll 1
    for (int steps = work.steps; steps > 0; --steps, query.advance(work.low, work.span)) {
      abi::RowStats stored[rows];
      float delta[rows];
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const u32 at = u32(query.head) * params.seq_len + query.first + row + 64 * i;
        const bool exists = query.first + row + 64 * i < params.seq_len;
        stored[i] = exists ? params.stats[at] : kNoRow;
        delta[i] = exists ? params.delta[at] : 0.f;
      }
      mbarrier_wait(barriers.empty(ring.stage), ring.parity ^ 1);
      const QueryStatsPlace<Tile::tile_n> place{shared + Tile::stats_at + ring.stage * Tile::stats_bytes};
      bool far_out = false;
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const QueryStats stats = QueryStats::of(stored[i], delta[i], params.softmax_scale_log2);
        place.store(stats, row + 64 * i);
        far_out |= stats.reduce != 0.f;
      }
      far_out = __any_sync(0xffffffffu, far_out);
      if (row % 32 == 0) place.store_far_out(far_out, row / 32);
      __syncwarp();
      if (row % 32 == 0) mbarrier_arrive(barriers.full(ring.stage));
      ring.advance();
    }
  }
}

// One thread: K, V and Kg of one tile after the other into their place.
template <class Tile>
STRATUM_DEVICE void produce_own_keys(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                     const BackwardBarriers<Tile>& barriers, int rank) {
  for (TileOrder<Tile::cluster> order; order.place() < DkvWork<Tile>::count(params); ++order.round) {
    const DkvWork<Tile> work(params, order.place(), rank);
    const int place = order.template use<Tile::own_places>();
#pragma unroll 1
    for (int consumer = 0; consumer < Tile::consumers; ++consumer) {
      const u32 full = barriers.own_full(place, consumer);
      const u32 own = shared + Tile::own_at(place, consumer);
      mbarrier_wait(barriers.own_empty(place, consumer), order.template parity<Tile::own_places>() ^ 1);
      mbarrier_arrive_expect(full, Tile::own_bytes);
      const int row = work.first + consumer * 64;
      load_rows<typename Tile::OwnGate>(own + Tile::own_gate_at, params.kg, full, work.kv_head, row, work.batch);
      load_rows<typename Tile::Own>(own, params.k, full, work.kv_head, row, work.batch);
      load_rows<typename Tile::Own>(own + Tile::own_second_at, params.v, full, work.kv_head, row, work.batch);
    }
  }
}

}  // namespace stratum::gated::sm90a
