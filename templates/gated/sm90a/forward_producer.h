// The forward's producer: one thread that has TMA bring queries and keys, as far ahead as there are places for them.
#pragma once

#include "abi/gated_sm90a.h"
#include "gated/sm90a/forward_tile.h"
#include "gated/sm90a/query_work.h"
#include "gated/sm90a/tile_rows.h"

namespace stratum::gated::sm90a {

template <class Tile>
struct ForwardProducer {
  const abi::GatedForwardSm90aParams& params;
  u32 shared;
  ForwardBarriers<Tile> barriers;
  RingPosition<Tile::stages> k, v;

  __device__ __forceinline__ void load_keys(const QueryWork<Tile>& work, int key_tile) {
    mbarrier_wait(barriers.k_empty(k.stage), k.parity ^ 1);
    const u32 full = barriers.k_full(k.stage);
    mbarrier_arrive_expect(full, Tile::K::bytes + Tile::Kg::bytes);
    const int row = key_tile * Tile::tile_n;
    load_rows<typename Tile::K>(shared + Tile::k_at + k.stage * Tile::K::bytes, params.k, full, work.kv_head, row,
                                work.batch);
    load_rows<typename Tile::Kg>(shared + Tile::kg_at + k.stage * Tile::Kg::bytes, params.kg, full, work.kv_head, row,
                                 work.batch);
    k.advance();
  }

  __device__ __forceinline__ void load_values(const QueryWork<Tile>& work, int key_tile) {
    mbarrier_wait(barriers.v_empty(v.stage), v.parity ^ 1);
    const u32 full = barriers.v_full(v.stage);
    mbarrier_arrive_expect(full, Tile::K::bytes);
    load_rows<typename Tile::K>(shared + Tile::v_at + v.stage * Tile::K::bytes, params.v, full, work.kv_head,
                                key_tile * Tile::tile_n, work.batch);
    v.advance();
  }

  __device__ __forceinline__ void load_queries(const QueryWork<Tile>& work, u32 parity) {
#pragma unroll
    for (int consumer = 0; consumer < Tile::consumers; ++consumer) {
      mbarrier_wait(barriers.q_empty(consumer), parity ^ 1);
      const u32 full = barriers.q_full(consumer);
      mbarrier_arrive_expect(full, Tile::Q::bytes + Tile::Qg::bytes);
      const int row = work.first + 64 * consumer;
      load_rows<typename Tile::Q>(shared + Tile::q_at + consumer * Tile::Q::bytes, params.q, full, work.head, row,
                                  work.batch);
      load_rows<typename Tile::Qg>(shared + Tile::qg_at + consumer * Tile::Qg::bytes, params.qg, full, work.head, row,
                                   work.batch);
    }
  }

  // Keys come from the diagonal to the first; a tile's values one step behind its keys, as they are used.
  __device__ __forceinline__ void run() {
    for (TileOrder<1> order; order.place() < QueryWork<Tile>::count(params); ++order.round) {
      const QueryWork<Tile> work(params, order.place());
      load_keys(work, work.steps - 1);
      load_queries(work, order.template parity<1>());
      for (int key_tile = work.steps - 1; key_tile > 0; --key_tile) {
        load_keys(work, key_tile - 1);
        load_values(work, key_tile);
      }
      load_values(work, 0);
    }
  }
};

}  // namespace stratum::gated::sm90a
