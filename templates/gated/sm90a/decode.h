// Decode in one launch: new tokens into the cache, attention from them to everything cached, splits merged.
//
// The bound is reading the cache once: (2 D + R) * 128 bytes a page and kv head. To keep 132 multiprocessors at 4.5
// TB/s each must have about 50 KB on the way; the ring of stages holds 100 to 200 KB. Blocks are persistent, so the
// ring runs over the borders of units; a unit is 512 keys of one kv head, at absolute positions, for 8 rows (new tokens
// times query heads of the group).
//
//     producer (1 warp)      TMA: K, Kg, V of a page, evict first ──full──▶ stage ──empty──▶ back
//     loader (1 warp)        q, qg and new tokens of the next unit ──full──▶ place ──empty──▶ back; new tokens ──▶
//     cache consumers (4 warps)    16 keys of the page each: S = K Q^T, T = Kg Qg^T, softmax and gate, O^T += V^T W^T;
//                            new tokens are put into the stage from the unit's place;
//                            at a unit's end O, m, l ──▶ shared memory ──▶ joined in warp order ──▶ partial or output
//     then all consumers     take rows of more than one split: wait until the partials are there, join, output
//
// Partials are handed over through the L2 cache with no counter: a word that isn't the mark has been written. Waiting
// is safe because the launch is cooperative: every block runs. The time after the last byte is one store, one load and
// the join.
//
// Registers: 2 a 16 columns of Q and Qg, D / 4 of O. Shared memory: stages, results of the four warps, barriers.
#pragma once

#include "device/named_barrier.h"
#include "gated/sm90a/decode_consumer.h"
#include "gated/sm90a/decode_loader.h"
#include "gated/sm90a/decode_partials.h"
#include "gated/sm90a/decode_producer.h"

namespace stratum::gated::sm90a {

template <class Tile>
STRATUM_DEVICE void consume(const abi::GatedDecodeSm90aParams& params, u8* memory, u32 shared, int warp, int lane) {
  constexpr int kJoin = 1;  // named barrier
  const DecodeBarriers<Tile> barriers{shared};
  auto* results = reinterpret_cast<float*>(memory + Tile::results_at);
  auto* stats = reinterpret_cast<abi::PartialStats*>(memory + Tile::stats_at);
  const u8* place = memory + Tile::place_at;
  DecodeConsumer<Tile> state(params, warp, lane);
  RingPosition<Tile::stages> ring;
  RingPosition<1> places;
  DecodeUnits<Tile> units(params);
  for (; units.more(); ++units.round) {
    mbarrier_wait(barriers.place_full(), places.parity);
    const DecodeUnit<Tile> unit(units, reinterpret_cast<const i32*>(place + Tile::split_at)[lane & 15]);
    state.start(unit, place);
    for (int i = 0; i < unit.num_pages; ++i) {
      const i32 first_key = unit.first_key + i * abi::kPageTokens;
      const bool has_new = first_key + abi::kPageTokens > unit.cached;
      const u32 stage = shared + ring.stage * Tile::stage_bytes;
      mbarrier_wait(barriers.full(ring.stage), ring.parity);
      if (has_new) state.take_new_tokens(stage, place, unit, first_key);
      state.attend(stage, first_key, has_new);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(barriers.empty(ring.stage));
      ring.advance();
    }
    named_barrier_sync<Tile::consumers * 32>(kJoin);  // nobody reads the place any more
    state.leave_result(results, stats);
    named_barrier_sync<Tile::consumers * 32>(kJoin);
    store_unit<Tile>(params, unit, results, stats, state.group, warp * 32 + lane);
    __syncwarp();
    if (lane == 0) mbarrier_arrive(barriers.place_empty());
    places.advance();
  }
  RowMerge<Tile>(params, warp).run(params, state.group, lane);
}

// Grid: at most as many blocks as the device holds at once.
template <class Tile>
STRATUM_DEVICE void decode(const abi::GatedDecodeSm90aParams& params) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const int warp = static_cast<int>(threadIdx.x >> 5);
  const int lane = static_cast<int>(threadIdx.x & 31);
  if (threadIdx.x == 0) DecodeBarriers<Tile>{shared}.init();
  __syncthreads();
  if (warp == Tile::producer) {
    produce<Tile>(params, shared, lane);
  } else if (warp == Tile::loader) {
    load_call<Tile>(params, shared, lane);
  } else {
    consume<Tile>(params, shared_memory, shared, warp, lane);
  }
}

}  // namespace stratum::gated::sm90a
