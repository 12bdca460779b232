// The accumulating role of backward_dkv_split.h: dV, dK and dKg of 32 keys and half of their columns a warp, and the copies
// of the query tiles to come.
#pragma once

#include "device/named_barrier.h"
#include "gated/portable/dkv_work.h"
#include "gated/portable/row_pair.h"

namespace stratum::gated {

// `warp` is 0 ... 3 within the role, `queries` are those of the step that comes after those in the stages.
template <class Tile>
STRATUM_DEVICE void accumulate_gradients(const abi::GatedBackwardParams& params, const DkvWork& work, u32 shared,
                                         int warp, int lane, QueryStream<Tile::tile_n> queries) {
  using Element = typename Tile::Element;
  using Weights = typename Tile::Weights;
  using Q = typename Tile::Q;
  using Qg = typename Tile::Qg;
  using Loader = typename Tile::Loader;
  constexpr int D = Tile::head_dim, R = Tile::gate_dim;
  const int my_key = (warp & 1) * 32, my_half = warp >> 1;

  float dv[2][D / 16][4], dk[2][D / 16][4], dkg[2][R / 16][4];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    clear(dv[m]);
    clear(dk[m]);
    clear(dkg[m]);
  }
  const u32 weights_lane = my_key * Weights::row_bytes + LaneOffset<Weights>::a(lane);
  const u32 q_turned = my_half * D + LaneOffset<Q>::b_transposed(lane);
  const u32 qg_turned = 2 * Q::bytes + my_half * R + LaneOffset<Qg>::b_transposed(lane);

  Ring<Tile::stages, Tile::stage_bytes> stages{shared + Tile::key_bytes};
  Ring<Tile::stages, Tile::stage_bytes> next_stages{shared + Tile::key_bytes, (Tile::stages - 1) * Tile::stage_bytes};
  Ring<Tile::hand_over, Tile::buffer_bytes> buffers{shared + Tile::key_bytes + Tile::stages * Tile::stage_bytes};
  for (int step = 0; step < work.steps; ++step) {
    const u32 stage = stages.address(), next_stage = next_stages.address();
    const u32 weights = buffers.address() + weights_lane;
    const int buffer = buffers.index();
    const auto arrive_free = [&](HandOver what) {
      if (Tile::hand_over == 1 && step + 1 < work.steps) named_barrier_arrive<Tile::threads>(free_barrier(what));
    };

    named_barrier_sync<Tile::threads>(full_barrier(kW, buffer));
    accumulate_pair<Element, Weights, Q, D / 2>(
        dv, weights, stage + Q::bytes + q_turned, [&](int product, int products) {
          share<query_pieces<Loader>>(product, products,
                                      [&](int piece) { load_queries_piece<Loader>(piece, next_stage, queries.rows); });
        });
    cp_async_commit();
    arrive_free(kW);
    named_barrier_sync<Tile::threads>(full_barrier(kDs, buffer));
    accumulate_pair<Element, Weights, Q, D / 2>(dk, weights + Weights::bytes, stage + q_turned);
    arrive_free(kDs);
    named_barrier_sync<Tile::threads>(full_barrier(kDt, buffer));
    accumulate_pair<Element, Weights, Qg, R / 2>(dkg, weights + 2 * Weights::bytes, stage + qg_turned);
    arrive_free(kDt);
    cp_async_wait<Tile::stages - 3>();
    if (step + 2 < work.steps) named_barrier_arrive<Tile::threads>(loaded_barrier(step));

    stages.advance();
    next_stages.advance();
    buffers.advance();
    queries.advance(params, work, step + Tile::stages < work.steps);
  }

  // The scoring warps have read K for the last time, so it can become scratch.
  const u32 scratch = shared + warp * 16 * Tile::K::row_bytes;
  const auto store = [&]<int kColumns>(const float(&c)[2][kColumns / 8][4], const abi::Dense& array, float scale) {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int row = my_key + m * 16;
      const Rows rows = dense_rows(array, work.batch, work.kv_head, work.first + row);
      store_warp_rows<Element, kColumns>(c[m], {scale, scale}, scratch,
                                         const_cast<u16*>(rows.data) + my_half * kColumns, rows.stride,
                                         params.seq_len - work.first - row);
    }
  };
  store.template operator()<D / 2>(dk, params.dk, 0.5f * params.softmax_scale);
  store.template operator()<D / 2>(dv, params.dv, 0.5f);
  store.template operator()<R / 2>(dkg, params.dkg, 0.25f * params.gate_scale);
}

}  // namespace stratum::gated
