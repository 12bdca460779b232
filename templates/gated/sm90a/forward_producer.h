// The forward's producer: one thread that has TMA bring queries and keys, as far ahead as there are places for them.
#pragma once

#include "abi/gated_sm90a.h"
#include "device/tma.h"
#include "gated/sm90a/forward_tile.h"
#include "gated/sm90a/tile_walk.h"

namespace stratum::gated::sm90a {

// Copies one tile, a box for each block of its columns.
template <class Shape>
STRATUM_DEVICE void load_tile(u32 destination, const abi::TensorMap& map, u32 barrier, int head, int row, int batch) {
#pragma unroll
  for (int block = 0; block < Shape::blocks; ++block) {
    tma_load(destination + block * Shape::block_bytes, map, barrier, block * Shape::block_columns, head, row, batch);
  }
}

template <class Tile>
struct ForwardProducer {
  const abi::GatedForwardSm90aParams& params;
  u32 shared;
  ForwardBarriers<Tile> barriers;
  RingPosition<Tile::stages> k, v;

  __device__ __forceinline__ void load_keys(const QueryTile& tile, int key_tile) {
    mbarrier_wait(barriers.k_empty(k.stage), k.parity ^ 1);
    const u32 full = barriers.k_full(k.stage);
    mbarrier_arrive_expect(full, Tile::K::bytes + Tile::Kg::bytes);
    const int row = key_tile * Tile::tile_n;
    load_tile<typename Tile::K>(shared + Tile::k_at + k.stage * Tile::K::bytes, params.k, full, tile.kv_head, row,
                                tile.batch);
    load_tile<typename Tile::Kg>(shared + Tile::kg_at + k.stage * Tile::Kg::bytes, params.kg, full, tile.kv_head, row,
                                 tile.batch);
    k.advance();
  }

  __device__ __forceinline__ void load_values(const QueryTile& tile, int key_tile) {
    mbarrier_wait(barriers.v_empty(v.stage), v.parity ^ 1);
    const u32 full = barriers.v_full(v.stage);
    mbarrier_arrive_expect(full, Tile::K::bytes);
    load_tile<typename Tile::K>(shared + Tile::v_at + v.stage * Tile::K::bytes, params.v, full, tile.kv_head,
                                key_tile * Tile::tile_n, tile.batch);
    v.advance();
  }

  __device__ __forceinline__ void load_queries(const QueryTile& tile, u32 parity) {
#pragma unroll
    for (int consumer = 0; consumer < Tile::consumers; ++consumer) {
      mbarrier_wait(barriers.q_empty(consumer), parity ^ 1);
      const u32 full = barriers.q_full(consumer);
      mbarrier_arrive_expect(full, Tile::Q::bytes + Tile::Qg::bytes);
      const int row = tile.first_row + 64 * consumer;
      load_tile<typename Tile::Q>(shared + Tile::q_at + consumer * Tile::Q::bytes, params.q, full, tile.head, row,
                                  tile.batch);
      load_tile<typename Tile::Qg>(shared + Tile::qg_at + consumer * Tile::Qg::bytes, params.qg, full, tile.head, row,
                                   tile.batch);
    }
  }

  // Keys come from the diagonal to the first; a tile's values one step behind its keys, as they are used.
  __device__ __forceinline__ void run(TileWalk walk) {
    QueryTile tile;
    for (u32 parity = 0; walk.next(tile, params.q_heads, params.kv_heads, Tile::tile_m); parity ^= 1) {
      const int visible = min(params.seq_len, tile.first_row + Tile::tile_m);
      int key_tile = (visible - 1) / Tile::tile_n;
      load_keys(tile, key_tile);
      load_queries(tile, parity);
      for (; key_tile > 0; --key_tile) {
        load_keys(tile, key_tile - 1);
        load_values(tile, key_tile);
      }
      load_values(tile, 0);
    }
  }
};

}  // namespace stratum::gated::sm90a
