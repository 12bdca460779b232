// Decode's producer: one warp that has TMA bring the cached pages of its block's units, as far ahead as stages are
// free.
#pragma once

#include "gated/sm90a/decode_tile.h"

namespace stratum::gated::sm90a {

// Cached keys are read once: what they evict from the L2 cache is worth more than they are.
STRATUM_DEVICE u64 evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  return policy;
}

STRATUM_DEVICE void load_block(u32 destination, const abi::TensorMap& map, u32 barrier, i32 block, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%3, %3, %3, %4}], [%2], %5;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(0), "r"(block), "l"(policy)
      : "memory");
}

template <class Tile>
STRATUM_DEVICE void produce(const abi::GatedDecodeSm90aParams& params, u32 shared, int lane) {
  const DecodeBarriers<Tile> barriers{shared};
  const u64 policy = evict_first();
  RingPosition<Tile::stages> ring;
  DecodeUnits<Tile> units(params);
  i32 word = units.load(params, lane);
  while (units.more()) {
    const DecodeUnit<Tile> unit(units, word);
    ++units.round;
    word = units.load(params, lane);
    for (int i = 0; i < unit.num_pages; ++i) {
      const i32 block = unit.page(i) * params.kv_heads + unit.kv_head;
      if (lane == 0) {
        mbarrier_wait(barriers.empty(ring.stage), ring.parity ^ 1);
        const u32 full = barriers.full(ring.stage);
        if (unit.first_key + i * abi::kPageTokens < unit.cached) {
          const u32 stage = shared + ring.stage * Tile::stage_bytes;
          mbarrier_arrive_expect(full, Tile::stage_bytes);
          load_block(stage, params.cache_k, full, block, policy);
          load_block(stage + Tile::kg_at, params.cache_kg, full, block, policy);
          load_block(stage + Tile::v_at, params.cache_v, full, block, policy);
        } else {
          mbarrier_arrive(full);  // a page of new tokens only: the consumers fill it
        }
      }
      __syncwarp();
      ring.advance();
    }
  }
}

}  // namespace stratum::gated::sm90a
