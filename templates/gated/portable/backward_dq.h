// dq, dqg and delta: one block owns tile_m query rows of one head and walks over the key tiles they see.
//
//     prologue      Q, Qg, dO ──cp.async──▶ shared;  delta = rowsum(dO * O), to registers and to global
//     all threads   cp.async key tile j+1 ──▶ stage (j+1) % 2
//     each warp     16 rows:  T = Qg Kg^T   S = Q K^T   dW = dO V^T     operands from shared memory
//                             dS, dT in place, packed as A operands
//                             dQ += dS K   dQg += dT Kg                 K, Kg read transposed
//
// One __syncthreads a key tile, as in attend.h. Registers (D 128, R 64, tile_n 64): dQ 64, dQg 32, S, T, dW 32 each.
#pragma once

#include "gated/portable/backward.h"

namespace stratum::gated {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, bool kQueryInRegisters,
          bool kDoutInRegisters>
struct BackwardDqTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN;
  static constexpr int threads = tile_m * 2;
  static constexpr bool query_in_registers = kQueryInRegisters, dout_in_registers = kDoutInRegisters;

  using Q = SharedTile<tile_m, head_dim>;
  using Qg = SharedTile<tile_m, gate_dim>;
  using K = SharedTile<tile_n, head_dim>;
  using Kg = SharedTile<tile_n, gate_dim>;
  static constexpr int query_bytes = 2 * Q::bytes + Qg::bytes;
  static constexpr int stage_bytes = 2 * K::bytes + Kg::bytes;
  static constexpr int shared_bytes = query_bytes + 2 * stage_bytes;
};

// delta of a warp's 16 rows, two lanes a row, each half of the row's chunks; lane 2i + 1 gets row i's sum as well.
template <class Tile>
STRATUM_DEVICE float row_delta(const Rows& o, const Rows& dout, int valid, int lane) {
  constexpr int chunks = Tile::head_dim / 8;
  const int row = lane >> 1;
  float sum = 0.f;
  if (row < valid) {
#pragma unroll
    for (int i = 0; i < chunks / 2; ++i) {
      const int column = (i * 2 + (lane & 1)) * 8;
      const uint4 a = *reinterpret_cast<const uint4*>(o.data + row * o.stride + column);
      const uint4 b = *reinterpret_cast<const uint4*>(dout.data + row * dout.stride + column);
      const u32 left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum = fmaf(Tile::Element::low(left[j]), Tile::Element::low(right[j]), sum);
        sum = fmaf(Tile::Element::high(left[j]), Tile::Element::high(right[j]), sum);
      }
    }
  }
  return sum + __shfl_xor_sync(0xffffffffu, sum, 1);
}

// Grid as forward's.
template <class Tile>
STRATUM_DEVICE void backward_dq(const abi::GatedBackwardParams& params) {
  using Element = typename Tile::Element;
  constexpr int D = Tile::head_dim, R = Tile::gate_dim, N = Tile::tile_n;
  using K = typename Tile::K;
  using Kg = typename Tile::Kg;
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;

  const u32 heads = static_cast<u32>(params.batch) * params.q_heads;
  const int row_tiles = (params.seq_len + Tile::tile_m - 1) / Tile::tile_m;
  const int first = (row_tiles - 1 - static_cast<int>(blockIdx.x / heads)) * Tile::tile_m;
  const int batch = static_cast<int>(blockIdx.x % heads) / params.q_heads;
  const int head = static_cast<int>(blockIdx.x % heads) % params.q_heads;
  const int kv_head = head / (params.q_heads / params.kv_heads);
  const int valid = min(Tile::tile_m, params.seq_len - first);
  const int num_tiles = (first + valid + N - 1) / N;
  const DenseKeys keys{dense_rows(params.k, batch, kv_head, 0), dense_rows(params.v, batch, kv_head, 0),
                       dense_rows(params.kg, batch, kv_head, 0), params.seq_len};

  const u32 q = shared, dout = q + Tile::Q::bytes, qg = dout + Tile::Q::bytes, stages = shared + Tile::query_bytes;
  copy_tile_async<typename Tile::Q, Tile::threads>(q, dense_rows(params.q, batch, head, first), valid);
  copy_tile_async<typename Tile::Q, Tile::threads>(dout, dense_rows(params.dout, batch, head, first), valid);
  copy_tile_async<typename Tile::Qg, Tile::threads>(qg, dense_rows(params.qg, batch, head, first), valid);
  load_keys<Tile>(stages, keys.tile(true, 0));
  cp_async_commit();

  const int warp_first = first + warp * 16;
  const int warp_valid = valid - warp * 16;
  const i64 stats_row = (static_cast<i64>(batch) * params.q_heads + head) * params.seq_len + warp_first;
  const float delta = row_delta<Tile>(dense_rows(params.o, batch, head, warp_first),
                                      dense_rows(params.dout, batch, head, warp_first), warp_valid, lane);
  if ((lane & 1) == 0 && (lane >> 1) < warp_valid) params.delta[stats_row + (lane >> 1)] = delta;
  abi::RowStats rows[2];
  float twice_delta[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = (lane >> 2) + r * 8;
    rows[r] = row < warp_valid ? params.stats[stats_row + row] : abi::RowStats{0.f, 0.f};
    twice_delta[r] = 2.f * __shfl_sync(0xffffffffu, delta, 2 * row);
  }

  const Scales scales{params.softmax_scale_log2, params.gate_half_scale};
  float dq[D / 8][4], dqg[R / 8][4];
  clear(dq);
  clear(dqg);
  cp_async_wait<0>();
  __syncthreads();
  const u32 my_rows = warp * 16 * Tile::Q::row_bytes;
  const RowOperand<typename Tile::Q, Tile::query_in_registers> a_q(q + my_rows, lane);
  const RowOperand<typename Tile::Q, Tile::dout_in_registers> a_dout(dout + my_rows, lane);
  const RowOperand<typename Tile::Qg, Tile::query_in_registers> a_qg(qg + warp * 16 * Tile::Qg::row_bytes, lane);
  const u32 k_lane = LaneOffset<K>::b(lane);
  const u32 kg_lane = K::bytes + LaneOffset<Kg>::b(lane);
  const u32 k_turned = LaneOffset<K>::b_transposed(lane);
  const u32 kg_turned = K::bytes + LaneOffset<Kg>::b_transposed(lane);

  for (int tile = 0; tile < num_tiles; ++tile) {
    const u32 stage = stages + (tile & 1) * Tile::stage_bytes;
    cp_async_wait<0>();
    __syncthreads();
    const u32 next_stage = stages + ((tile + 1) & 1) * Tile::stage_bytes;
    const KeyRows next = keys.tile(tile + 1 < num_tiles, (tile + 1) * N);
    if (tile * N > warp_first + 15) {  // wholly behind this warp's mask
      load_keys<Tile>(next_stage, next);
      cp_async_commit();
      continue;
    }

    // Beside the products: the next tile's copies beside T, tanh beside S, exp2 beside dW, each k-step's ds and dt
    // beside the step before.
    float s[N / 8][4], t[N / 8][4], dw[N / 8][4];
    multiply<Element, Kg>(t, a_qg, stage + kg_lane,
                          [&](int step, int steps) { load_keys_share<Tile>(step, steps, next_stage, next); });
    cp_async_commit();
    multiply<Element, K>(s, a_q, stage + k_lane, [&](int step, int steps) {
      share<N / 2>(step, steps, [&](int i) { t[i / 4][i % 4] = fast_tanh(t[i / 4][i % 4] * scales.gate_half); });
    });
    if (tile * N + N - 1 > warp_first) mask_keys<N>(s, t, tile * N, warp_first, lane);
    multiply<Element, K>(dw, a_dout, stage + K::bytes + Kg::bytes + k_lane, [&](int step, int steps) {
      share<N / 2>(step, steps,
                   [&](int i) { s[i / 4][i % 4] = pair_probability(s[i / 4][i % 4], rows[i % 4 / 2], scales); });
    });

    u32 ds[N / 16][4], dt[N / 16][4];
    const auto differentiate = [&](int n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) pair_gradients(s[n][i], t[n][i], dw[n][i], twice_delta[i / 2]);
      pack_operand<Element>(ds, n, s[n]);
      pack_operand<Element>(dt, n, t[n]);
    };
    differentiate(0);
    differentiate(1);
#pragma unroll
    for (int k = 0; k < N / 16; ++k) {
      accumulate_step<Element, K>(dq, ds[k], stage + k_turned, k, [&](int step, int steps) {
        if (k + 1 < N / 16) share<2>(step, steps, [&](int i) { differentiate(2 * k + 2 + i); });
      });
      accumulate_step<Element, Kg>(dqg, dt[k], stage + kg_turned, k);
    }
  }

  const Rows dq_rows = dense_rows(params.dq, batch, head, warp_first);
  const Rows dqg_rows = dense_rows(params.dqg, batch, head, warp_first);
  const float dq_scale[2] = {0.5f * params.softmax_scale, 0.5f * params.softmax_scale};
  const float dqg_scale[2] = {0.25f * params.gate_scale, 0.25f * params.gate_scale};
  // Only this warp reads its rows of Q and Qg, so they can become its scratch without a barrier.
  store_warp_rows<Element, D>(dq, dq_scale, q + my_rows, const_cast<u16*>(dq_rows.data), dq_rows.stride, warp_valid);
  store_warp_rows<Element, R>(dqg, dqg_scale, qg + warp * 16 * Tile::Qg::row_bytes, const_cast<u16*>(dqg_rows.data),
                              dqg_rows.stride, warp_valid);
}

}  // namespace stratum::gated
