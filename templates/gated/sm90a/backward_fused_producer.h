// What backward_fused's producer warps do: bring keys and query tiles with their statistics, and add the sums of
// queries that the consumers form to the workspace, in the tiles' order.
#pragma once

#include "device/bulk_copy.h"
#include "device/global_flag.h"
#include "gated/sm90a/backward_fused_tile.h"
#include "gated/sm90a/fused_work.h"
#include "gated/sm90a/tile_rows.h"

namespace stratum::gated::sm90a {

// One thread: a tile's K, V and Kg, then Q, dO, Qg and statistics of one step after the other into the ring.
template <class Tile>
STRATUM_DEVICE void produce_fused_stream(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                         const FusedBarriers<Tile>& barriers) {
  using Tiles = typename Tile::Tiles;
  RingPosition<Tile::stages> ring;
  RingPosition<1> tile;
  for (FusedOrder order; order.place < FusedWork<Tile>::count(params); order.advance()) {
    const FusedWork<Tile> work(params, order.place);
    if (work.steps == 0) continue;
    const int key = work.key_tile * Tile::tile_m;
#pragma unroll 1
    for (int consumer = 0; consumer < Tile::consumers; ++consumer) {
      const u32 full = barriers.own_full(0, consumer);
      const u32 own = shared + Tile::own_at(0, consumer);
      const int row = key + consumer * 64;
      mbarrier_wait(barriers.own_empty(0, consumer), tile.parity ^ 1);
      mbarrier_arrive_expect(full, Tile::own_bytes);
      load_rows<typename Tile::OwnGate>(own + Tile::own_gate_at, params.kg, full, work.kv_head, row, work.batch);
      load_rows<typename Tile::Own>(own, params.k, full, work.kv_head, row, work.batch);
      load_rows<typename Tile::Own>(own + Tile::own_second_at, params.v, full, work.kv_head, row, work.batch);
    }
    tile.advance();
    FusedStep<Tile> query(work);
    const int head = work.q_head - work.batch * params.q_heads;
#pragma unroll 1
    for (int steps = work.steps; steps > 0; --steps, query.advance(work)) {
      const u32 full = barriers.full(ring.stage);
      const u32 stage = shared + Tile::stages_at + ring.stage * Tile::stage_bytes;
      const int row = key + query.first;
      mbarrier_wait(barriers.empty(ring.stage), ring.parity ^ 1);
      mbarrier_arrive_expect(full, Tile::stage_bytes + Tile::stats_bytes);
      load_rows<typename Tile::StreamGate>(stage + Tile::stage_gate_at, params.qg, full, head + query.head, row,
                                           work.batch);
      load_rows<typename Tile::Stream>(stage, params.q, full, head + query.head, row, work.batch);
      load_rows<typename Tile::Stream>(stage + Tile::stage_second_at, params.dout, full, head + query.head, row,
                                       work.batch);
      bulk_load(shared + Tile::stats_at + ring.stage * Tile::stats_bytes,
                Tiles::stats(params, Tiles::number(params, work.q_head + query.head, row)), Tile::stats_bytes, full);
      ring.advance();
    }
  }
}

// One thread of each of two warps, which take the steps in turn: dQ and dQg of a step to the workspace, behind the key
// tiles that come before. A place of the sums is handed back when it is read, the turn passed on when they are added.
template <class Tile>
STRATUM_DEVICE void add_query_sums(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                   const FusedBarriers<Tile>& barriers, int which) {
  using Tiles = typename Tile::Tiles;
  RingPosition<2> place;
  for (FusedOrder order; order.place < FusedWork<Tile>::count(params); order.advance()) {
    const FusedWork<Tile> work(params, order.place);
    FusedStep<Tile> query(work);
#pragma unroll 1
    for (int steps = work.steps; steps > 0; --steps, query.advance(work), place.advance()) {
      if (place.stage != which) continue;
      const u32 later = u32(query.first) / Tile::tile_m;  // key tiles of these queries behind this one
      const u32 before = work.ascends ? later : work.key_tile;
      const u32 tile = Tiles::number(params, work.q_head + query.head, work.key_tile * Tile::tile_m + query.first);
      const auto add = [&](u8* to, u32 from, u32 bytes, int consumer) {
        if (before == 0) {
          bulk_store(to, from, bytes);
        } else {
          bulk_add(reinterpret_cast<float*>(to), from, bytes);
        }
        bulk_commit();
        bulk_wait_read<0>();
        mbarrier_arrive(barriers.sum_empty(which, consumer));
      };
      mbarrier_wait(barriers.sum_full(which, 1), place.parity);
      while (load_acquire(Tiles::key_tiles_added(params, tile)) != before) {
      }
      fence_proxy_async_all();
      add(Tiles::dq(params, tile), shared + Tile::dq_at(which), Tiles::dq_bytes, 1);
      mbarrier_wait(barriers.sum_full(which, 0), place.parity);
      add(Tiles::dqg(params, tile), shared + Tile::dqg_at(which), Tiles::dqg_bytes, 0);
      bulk_wait_all();
      store_release(Tiles::key_tiles_added(params, tile), before + 1);
    }
  }
}

}  // namespace stratum::gated::sm90a
