// What backward_dq's producer warps bring: key tiles, and the block's own queries.
#pragma once

#include "abi/gated_sm90a.h"
#include "gated/sm90a/backward_tile.h"
#include "gated/sm90a/query_work.h"
#include "gated/sm90a/tile_rows.h"

namespace stratum::gated::sm90a {

// One thread: K, V and Kg of one step after the other into the ring.
template <class Tile>
STRATUM_DEVICE void produce_key_stream(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                       const BackwardBarriers<Tile>& barriers) {
  RingPosition<Tile::stages> ring;
  for (TileOrder<1> order; order.place() < QueryWork<Tile>::count(params); ++order.round) {
    const QueryWork<Tile> work(params, order.place());
#pragma unroll 1
    for (int step = 0; step < work.steps; ++step) {
      const u32 full = barriers.full(ring.stage);
      const u32 stage = shared + Tile::stages_at + ring.stage * Tile::stage_bytes;
      const int row = step * Tile::tile_n;
      mbarrier_wait(barriers.empty(ring.stage), ring.parity ^ 1);
      mbarrier_arrive_expect(full, Tile::stage_bytes);
      load_rows<typename Tile::StreamGate>(stage + Tile::stage_gate_at, params.kg, full, work.kv_head, row, work.batch);
      load_rows<typename Tile::Stream>(stage, params.k, full, work.kv_head, row, work.batch);
      load_rows<typename Tile::Stream>(stage + Tile::stage_second_at, params.v, full, work.kv_head, row, work.batch);
      ring.advance();
    }
  }
}

// One thread: Q, dO and Qg of one tile after the other into their place.
template <class Tile>
STRATUM_DEVICE void produce_own_queries(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                        const BackwardBarriers<Tile>& barriers) {
  for (TileOrder<1> order; order.place() < QueryWork<Tile>::count(params); ++order.round) {
    const QueryWork<Tile> work(params, order.place());
    const int place = order.template use<Tile::own_places>();
#pragma unroll 1
    for (int consumer = 0; consumer < Tile::consumers; ++consumer) {
      const u32 full = barriers.own_full(place, consumer);
      const u32 own = shared + Tile::own_at(place, consumer);
      mbarrier_wait(barriers.own_empty(place, consumer), order.template parity<Tile::own_places>() ^ 1);
      mbarrier_arrive_expect(full, Tile::own_bytes);
      const int row = work.first + consumer * 64;
      load_rows<typename Tile::OwnGate>(own + Tile::own_gate_at, params.qg, full, work.head, row, work.batch);
      load_rows<typename Tile::Own>(own, params.q, full, work.head, row, work.batch);
      load_rows<typename Tile::Own>(own + Tile::own_second_at, params.dout, full, work.head, row, work.batch);
    }
  }
}

}  // namespace stratum::gated::sm90a
