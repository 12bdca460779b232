// The scoring role of backward_dkv_split.h: S, T and dW of 32 keys and half a tile's queries a warp, handed over as W,
// dS and dT.
#pragma once

#include "device/named_barrier.h"
#include "device/store_matrix.h"
#include "gated/portable/dkv_work.h"
#include "gated/portable/row_pair.h"

namespace stratum::gated {

// `warp` is 0 ... 3 within the role.
template <class Tile>
STRATUM_DEVICE void score_queries(const abi::GatedBackwardParams& params, const DkvWork& work, u32 shared, int warp,
                                  int lane) {
  using Element = typename Tile::Element;
  using Weights = typename Tile::Weights;
  constexpr int N = Tile::tile_n, H = N / 2;  // H: this warp's queries
  using Q = SharedTile<H, Tile::head_dim>;
  using Qg = SharedTile<H, Tile::gate_dim>;
  constexpr int q_bytes = Tile::Q::bytes, stats_at = 2 * Tile::Q::bytes + Tile::Qg::bytes;
  const Scales scales{params.softmax_scale_log2, params.gate_half_scale};
  const int my_key = (warp & 1) * 32, my_query = (warp >> 1) * H;

  const RowPair<typename Tile::K, Tile::key_in_registers> a_k(shared + my_key * Tile::K::row_bytes, lane);
  const RowPair<typename Tile::K, Tile::value_in_registers> a_v(shared + Tile::K::bytes + my_key * Tile::K::row_bytes,
                                                                lane);
  const RowPair<typename Tile::Kg, Tile::gate_in_registers> a_kg(
      shared + 2 * Tile::K::bytes + my_key * Tile::Kg::row_bytes, lane);
  const u32 q_lane = my_query * Q::row_bytes + LaneOffset<Q>::b(lane);
  const u32 qg_lane = 2 * q_bytes + my_query * Qg::row_bytes + LaneOffset<Qg>::b(lane);
  const u32 stats_lane = stats_at + my_query * 8 + (lane & 3) * 16;
  const u32 deltas_lane = stats_at + N * 8 + my_query * 4 + (lane & 3) * 8;
  const u32 weights_lane = my_key * Weights::row_bytes + my_query * 2 + StoreOperand<Weights>::lane_offset(lane);

  Ring<Tile::stages, Tile::stage_bytes> stages{shared + Tile::key_bytes};
  Ring<Tile::hand_over, Tile::buffer_bytes> buffers{shared + Tile::key_bytes + Tile::stages * Tile::stage_bytes};
  int tile = work.first_tile;
  for (int step = 0; step < work.steps; ++step) {
    const u32 stage = stages.address(), weights = buffers.address() + weights_lane;
    const int buffer = buffers.index();
    const auto put = [&](HandOver what, int m, int n, const u32(&operand)[4]) {
      StoreOperand<Weights>::store(weights + what * Weights::bytes + m * 16 * Weights::row_bytes + n * 32, operand);
    };
    const auto wait_free = [&](HandOver what) {
      if (Tile::hand_over == 1 && step > 0) named_barrier_sync<Tile::threads>(free_barrier(what));
    };
    if (step >= 2) named_barrier_sync<Tile::threads>(loaded_barrier(step));

    // exp2 runs beside the products of T, tanh and w beside those of dW.
    float s[2][H / 8][4], t[2][H / 8][4], dw[2][H / 8][4];
    multiply_pair<Element, Q>(s, a_k, stage + q_lane);
    const int query_from_key = tile * N + my_query - (work.first + my_key);  // of the first of each
    const int end = params.seq_len - (work.first + my_key);
    const bool masked = query_from_key < 31 || query_from_key + H > end;
    if (masked) {
      mask_queries<H>(s[0], -kInfinity, query_from_key, end, lane);
      mask_queries<H>(s[1], -kInfinity, query_from_key - 16, end - 16, lane);
    }
    multiply_pair<Element, Qg>(t, a_kg, stage + qg_lane, [&](int k, int steps) {
      share<H / 8>(k, steps, [&](int n) {
        const float4 stats = load_shared_float4(stage + stats_lane + n * 64);
        const abi::RowStats rows[2] = {{stats.x, stats.y}, {stats.z, stats.w}};
#pragma unroll
        for (int i = 0; i < 8; ++i) s[i / 4][n][i % 4] = pair_probability(s[i / 4][n][i % 4], rows[i & 1], scales);
      });
    });
    if (masked) {
      mask_queries<H>(t[0], 0.f, query_from_key, end, lane);
      mask_queries<H>(t[1], 0.f, query_from_key - 16, end - 16, lane);
    }
    wait_free(kW);
    u32 w[2][H / 16][4];
    multiply_pair<Element, Q>(dw, a_v, stage + q_bytes + q_lane, [&](int k, int steps) {
      share<H / 4>(k, steps, [&](int piece) {
        const int m = piece / (H / 8), n = piece % (H / 8);
        float weight[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          t[m][n][i] = fast_tanh(t[m][n][i] * scales.gate_half);
          weight[i] = fmaf(s[m][n][i], t[m][n][i], s[m][n][i]);
        }
        pack_operand<Element>(w[m], n, weight);
        if (n % 2 == 1) put(kW, m, n / 2, w[m][n / 2]);
      });
    });
    named_barrier_arrive<Tile::threads>(full_barrier(kW, buffer));

    wait_free(kDs);
    u32 ds[2][H / 16][4], dt[2][H / 16][4];
#pragma unroll
    for (int n = 0; n < H / 8; ++n) {
      const float2 deltas = load_shared_float2(stage + deltas_lane + n * 32);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          pair_gradients(s[m][n][i], t[m][n][i], dw[m][n][i], 2.f * (i & 1 ? deltas.y : deltas.x));
        }
        pack_operand<Element>(ds[m], n, s[m][n]);
        pack_operand<Element>(dt[m], n, t[m][n]);
        if (n % 2 == 1) put(kDs, m, n / 2, ds[m][n / 2]);
      }
    }
    named_barrier_arrive<Tile::threads>(full_barrier(kDs, buffer));
    wait_free(kDt);
#pragma unroll
    for (int i = 0; i < H / 8; ++i) put(kDt, i % 2, i / 2, dt[i % 2][i / 2]);
    named_barrier_arrive<Tile::threads>(full_barrier(kDt, buffer));

    stages.advance();
    buffers.advance();
    if (++tile == work.last_tile) tile = work.first_tile;
  }
}

}  // namespace stratum::gated
