// dk, dv and dkg with two roles a block. As in backward_dkv.h a block owns 64 keys of one kv head and walks over the
// query tiles that see them, for every query head of the group in turn; here four warps form the scores of a query tile
// while four others still multiply with those of the tile before:
//
//     query stages   Q, dO, Qg, statistics, delta          `stages` of them, step i in stage i % stages
//     hand-over      W, dS, dT  [64 keys][tile_n]          `hand_over` buffers, 16-bit
//
//     accumulate, warps 0-3: 32 keys x half the columns      score, warps 4-7: 32 keys x half the queries
//     ──────────────────────────────────────────────────     ────────────────────────────────────────────────────────
//                                                            wait loaded[i]     S^T = K Q^T
//                                                            T^T = Kg Qg^T      │ p
//                                                            wait free W        dW^T = V dO^T   │ tanh, W ──▶ hand-over
//     wait full W       dV += W dO    │ cp.async of step  ◀── arrive full W
//                                     │ i + stages - 1        wait free dS       dS, dT          dS ──▶ hand-over
//     arrive free W                                       ◀── arrive full dS     wait free dT    dT ──▶ hand-over
//     wait full dS      dK += dS Q    arrive free dS      ◀── arrive full dT
//     wait full dT      dKg += dT Qg  arrive free dT         (step i + 1)
//     wait for own copies of step i + 2, arrive loaded[i + 2]
//
// The accumulating warps run most of a step behind. They alone know when a stage may be refilled, and have issue slots
// to spare, so they do the copying: "full W" of step i takes all four of them past step i - 1, and the scoring warps
// too, so whoever passes it may overwrite the stage of step i - 1, which is that of step i + stages - 1. The wait for
// full W of step i + 1 also shows each accumulating warp the others' copies of step i + 2, a step before it reads them.
//
// No barrier is come to twice before it completes: between two arrivals at "full X" of one buffer lies a wait for its
// "free X" (with two buffers for "loaded" of step i + 2), and the other way round; "loaded" alternates between two
// barriers, since its arrival for step i + 2 lies before full W of step i + 1, and that for step i + 4 behind the full
// W of step i + 2 that only follows a wait for loaded[i + 2].
//
// A score's warp has 32 rows, so a fragment of B serves four products, not two: a fifth fewer bytes of shared memory
// than backward_dkv.h's warps of 16 rows, which are bound by them where head_dim is 128.
//
// Registers (D 128, R 64): accumulate dV 64, dK 64, dKg 32; score (tile_n 64) S, T, dW 32 each, and what it keeps of
// its keys' rows: K 64, V 64, Kg 32.
#pragma once

#include "gated/portable/dkv_accumulate.h"
#include "gated/portable/dkv_score.h"

namespace stratum::gated {

// Grid: key tiles x batch x kv_heads in one dimension, heads fastest; the first keys, which most queries see, come
// first.
template <class Tile>
STRATUM_DEVICE void backward_dkv_split(const abi::GatedBackwardParams& params) {
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const int lane = threadIdx.x & 31;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0);  // known to the compiler as the warp's own

  const u32 heads = static_cast<u32>(params.batch) * params.kv_heads;
  const int group = params.q_heads / params.kv_heads;
  DkvWork work;
  work.first = static_cast<int>(blockIdx.x / heads) * Tile::tile_m;
  work.batch = static_cast<int>(blockIdx.x % heads) / params.kv_heads;
  work.kv_head = static_cast<int>(blockIdx.x % heads) % params.kv_heads;
  work.first_tile = work.first / Tile::tile_n;
  work.last_tile = (params.seq_len + Tile::tile_n - 1) / Tile::tile_n;
  work.steps = (work.last_tile - work.first_tile) * group;

  const int valid = params.seq_len - work.first;
  copy_tile_async<typename Tile::K, Tile::threads>(shared, dense_rows(params.k, work.batch, work.kv_head, work.first),
                                                   valid);
  copy_tile_async<typename Tile::K, Tile::threads>(shared + Tile::K::bytes,
                                                   dense_rows(params.v, work.batch, work.kv_head, work.first), valid);
  copy_tile_async<typename Tile::Kg, Tile::threads>(shared + 2 * Tile::K::bytes,
                                                    dense_rows(params.kg, work.batch, work.kv_head, work.first), valid);
  QueryStream<Tile::tile_n> queries(params, work);
  if (warp < 4) {
#pragma unroll
    for (int step = 0; step < Tile::stages - 1; ++step) {
      load_queries<typename Tile::Loader>(shared + Tile::key_bytes + step * Tile::stage_bytes, queries.rows);
      cp_async_commit();
      queries.advance(params, work, step + 1 < work.steps);
    }
    cp_async_wait<Tile::stages - 3>();  // the keys and steps 0 and 1
  } else {
    cp_async_commit();
    cp_async_wait<0>();
  }
  __syncthreads();
  if (warp < 4) {
    accumulate_gradients<Tile>(params, work, shared, warp, lane, queries);
  } else {
    score_queries<Tile>(params, work, shared, warp - 4, lane);
  }
}

}  // namespace stratum::gated
