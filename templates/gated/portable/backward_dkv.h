// dk, dv and dkg: one block owns tile_m keys of one kv head and walks over the query tiles that see them, for every
// query head of the group in turn, so the group's sum is formed in registers in a fixed order.
//
//     prologue      K, V, Kg ──cp.async──▶ shared
//     all threads   cp.async query tile i+1 (Q, dO, Qg, statistics, delta) ──▶ stage (i+1) % 2
//     each warp     16 keys:  S^T = K Q^T   T^T = Kg Qg^T   dW^T = V dO^T     operands from shared memory
//                             W, dS, dT in place, packed as A operands (rows are keys)
//                             dV += W dO   dK += dS Q   dKg += dT Qg          Q, dO, Qg read transposed
//
// One __syncthreads a query tile. Registers (D 128, R 64, tile_n 32): dV 64, dK 64, dKg 32, S, T, dW 16 each.
#pragma once

#include "gated/portable/backward.h"

namespace stratum::gated {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, bool kGateInRegisters>
struct BackwardDkvTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN;
  static constexpr int threads = tile_m * 2;
  static constexpr bool gate_in_registers = kGateInRegisters;
  static_assert(tile_n <= threads, "one thread fetches the statistics of one query");

  using K = SharedTile<tile_m, head_dim>;
  using Kg = SharedTile<tile_m, gate_dim>;
  using Q = SharedTile<tile_n, head_dim>;
  using Qg = SharedTile<tile_n, gate_dim>;
  static constexpr int key_bytes = 2 * K::bytes + Kg::bytes;
  static constexpr int stats_bytes = tile_n * 12;  // RowStats, then delta
  static constexpr int stage_bytes = 2 * Q::bytes + Qg::bytes + stats_bytes;
  static constexpr int shared_bytes = key_bytes + 2 * stage_bytes;
  static_assert(stage_bytes % 16 == 0, "stages are 16-byte aligned");
};

// The query rows of one stage: where row 0 of each array is and how many rows exist.
struct QueryTile {
  Rows q, dout, qg;
  const abi::RowStats* stats;
  const float* delta;
  int valid;
};

STRATUM_DEVICE QueryTile query_tile(const abi::GatedBackwardParams& params, int batch, int head, int first,
                                    bool exists) {
  const i64 row = (static_cast<i64>(batch) * params.q_heads + head) * params.seq_len + first;
  return {dense_rows(params.q, batch, head, first),
          dense_rows(params.dout, batch, head, first),
          dense_rows(params.qg, batch, head, first),
          params.stats + row,
          params.delta + row,
          exists ? params.seq_len - first : 0};
}

// One piece of the copies that bring a query tile into its stage: Q, dO, Qg, and the statistics last. Rows past the end
// read as zeros, and their pairs are hidden.
template <class Tile>
STRATUM_DEVICE void load_queries_piece(int piece, u32 stage, const QueryTile& rows) {
  using QCopy = TileCopy<typename Tile::Q, Tile::threads>;
  using QgCopy = TileCopy<typename Tile::Qg, Tile::threads>;
  if (piece < QCopy::pieces) {
    QCopy::issue(piece, stage, rows.q, rows.valid);
  } else if (piece < 2 * QCopy::pieces) {
    QCopy::issue(piece - QCopy::pieces, stage + Tile::Q::bytes, rows.dout, rows.valid);
  } else if (piece < 2 * QCopy::pieces + QgCopy::pieces) {
    QgCopy::issue(piece - 2 * QCopy::pieces, stage + 2 * Tile::Q::bytes, rows.qg, rows.valid);
  } else {
    const int row = threadIdx.x;
    const u32 stats = stage + 2 * Tile::Q::bytes + Tile::Qg::bytes;
    if (row < Tile::tile_n) {
      cp_async_small<8>(stats + row * 8, rows.stats + row, row < rows.valid);
      cp_async_small<4>(stats + Tile::tile_n * 8 + row * 4, rows.delta + row, row < rows.valid);
    }
  }
}

template <class Tile>
inline constexpr int query_pieces =
    2 * TileCopy<typename Tile::Q, Tile::threads>::pieces + TileCopy<typename Tile::Qg, Tile::threads>::pieces + 1;

template <class Tile>
STRATUM_DEVICE void load_queries(u32 stage, const QueryTile& rows) {
#pragma unroll
  for (int piece = 0; piece < query_pieces<Tile>; ++piece) load_queries_piece<Tile>(piece, stage, rows);
}

// Sets to `hidden` the pairs whose query comes before their key or doesn't exist: row r of the scores is key r, column
// j query query_from_key + j, and the last query is the one before `end`, all counted from key 0.
template <int kColumns>
STRATUM_DEVICE void mask_queries(float (&c)[kColumns / 8][4], float hidden, int query_from_key, int end, int lane) {
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = query_from_key + n * 8 + (lane & 3) * 2 + (i & 1);
      if (query < (lane >> 2) + (i / 2) * 8 || query >= end) c[n][i] = hidden;
    }
  }
}

// Grid: key tiles x batch x kv_heads in one dimension, heads fastest; the first keys, which most queries see, come
// first.
template <class Tile>
STRATUM_DEVICE void backward_dkv(const abi::GatedBackwardParams& params) {
  using Element = typename Tile::Element;
  constexpr int D = Tile::head_dim, R = Tile::gate_dim, N = Tile::tile_n;
  using Q = typename Tile::Q;
  using Qg = typename Tile::Qg;
  extern __shared__ __align__(16) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;

  const u32 heads = static_cast<u32>(params.batch) * params.kv_heads;
  const int first = static_cast<int>(blockIdx.x / heads) * Tile::tile_m;
  const int batch = static_cast<int>(blockIdx.x % heads) / params.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.x % heads) % params.kv_heads;
  const int group = params.q_heads / params.kv_heads;
  const int valid = min(Tile::tile_m, params.seq_len - first);
  const int warp_first = first + warp * 16;

  const int first_tile = first / N;
  const int last_tile = (params.seq_len + N - 1) / N;
  const int tiles = last_tile - first_tile;

  const u32 k = shared, v = k + Tile::K::bytes, kg = v + Tile::K::bytes, stages = shared + Tile::key_bytes;
  copy_tile_async<typename Tile::K, Tile::threads>(k, dense_rows(params.k, batch, kv_head, first), valid);
  copy_tile_async<typename Tile::K, Tile::threads>(v, dense_rows(params.v, batch, kv_head, first), valid);
  copy_tile_async<typename Tile::Kg, Tile::threads>(kg, dense_rows(params.kg, batch, kv_head, first), valid);
  load_queries<Tile>(stages, query_tile(params, batch, kv_head * group, first_tile * N, true));
  cp_async_commit();

  const Scales scales{params.softmax_scale_log2, params.gate_half_scale};
  float dv[D / 8][4], dk[D / 8][4], dkg[R / 8][4];
  clear(dv);
  clear(dk);
  clear(dkg);
  cp_async_wait<0>();
  __syncthreads();
  const u32 my_rows = warp * 16 * Tile::K::row_bytes;
  const RowOperand<typename Tile::K, false> a_k(k + my_rows, lane), a_v(v + my_rows, lane);
  const RowOperand<typename Tile::Kg, Tile::gate_in_registers> a_kg(kg + warp * 16 * Tile::Kg::row_bytes, lane);
  const u32 q_lane = LaneOffset<Q>::b(lane), qg_lane = 2 * Q::bytes + LaneOffset<Qg>::b(lane);
  const u32 q_turned = LaneOffset<Q>::b_transposed(lane);
  const u32 stats_lane = 2 * Q::bytes + Qg::bytes + (lane & 3) * 16;
  const u32 deltas_lane = 2 * Q::bytes + Qg::bytes + N * 8 + (lane & 3) * 8;
  const u32 qg_turned = 2 * Q::bytes + LaneOffset<Qg>::b_transposed(lane);

  int tile = first_tile, next_tile = first_tile, next_head = kv_head * group;
  for (int step = 0; step < tiles * group; ++step) {
    const u32 stage = stages + (step & 1) * Tile::stage_bytes;
    cp_async_wait<0>();
    __syncthreads();
    tile = next_tile;
    if (++next_tile == last_tile) {
      next_tile = first_tile;
      ++next_head;
    }
    const u32 next_stage = stages + ((step + 1) & 1) * Tile::stage_bytes;
    const QueryTile next = query_tile(params, batch, next_head, next_tile * N, step + 1 < tiles * group);
    if (tile * N + N - 1 < warp_first) {  // none of these queries sees this warp's keys
      load_queries<Tile>(next_stage, next);
      cp_async_commit();
      continue;
    }

    // Beside the products: the next tile's copies beside S, exp2 beside T, tanh and w beside dW, ds and dt beside dV.
    float s[N / 8][4], t[N / 8][4], dw[N / 8][4];
    u32 w[N / 16][4], ds[N / 16][4], dt[N / 16][4];
    multiply<Element, Q>(s, a_k, stage + q_lane, [&](int product_step, int steps) {
      share<query_pieces<Tile>>(product_step, steps,
                                [&](int piece) { load_queries_piece<Tile>(piece, next_stage, next); });
    });
    cp_async_commit();
    const bool masked = tile * N < warp_first + 15 || tile * N + N > params.seq_len;
    if (masked) mask_queries<N>(s, -kInfinity, tile * N - warp_first, params.seq_len - warp_first, lane);
    multiply<Element, Qg>(t, a_kg, stage + qg_lane, [&](int step, int steps) {
      share<N / 8>(step, steps, [&](int n) {
        const float4 stats = load_shared_float4(stage + stats_lane + n * 64);
        const abi::RowStats rows[2] = {{stats.x, stats.y}, {stats.z, stats.w}};
#pragma unroll
        for (int i = 0; i < 4; ++i) s[n][i] = pair_probability(s[n][i], rows[i & 1], scales);
      });
    });
    if (masked) mask_queries<N>(t, 0.f, tile * N - warp_first, params.seq_len - warp_first, lane);
    multiply<Element, Q>(dw, a_v, stage + Q::bytes + q_lane, [&](int step, int steps) {
      share<N / 8>(step, steps, [&](int n) {
        float weight[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          t[n][i] = fast_tanh(t[n][i] * scales.gate_half);
          weight[i] = fmaf(s[n][i], t[n][i], s[n][i]);
        }
        pack_operand<Element>(w, n, weight);
      });
    });
#pragma unroll
    for (int k = 0; k < N / 16; ++k) {
      accumulate_step<Element, Q>(dv, w[k], stage + Q::bytes + q_turned, k, [&](int step, int steps) {
        share<2>(step, steps, [&](int half) {
          const int n = 2 * k + half;
          const float2 deltas = load_shared_float2(stage + deltas_lane + n * 32);
#pragma unroll
          for (int i = 0; i < 4; ++i) pair_gradients(s[n][i], t[n][i], dw[n][i], 2.f * (i & 1 ? deltas.y : deltas.x));
          pack_operand<Element>(ds, n, s[n]);
          pack_operand<Element>(dt, n, t[n]);
        });
      });
    }
    accumulate_rows<Element, Q>(dk, ds, stage + q_turned);
    accumulate_rows<Element, Qg>(dkg, dt, stage + qg_turned);
  }

  const int warp_valid = valid - warp * 16;
  const Rows dk_rows = dense_rows(params.dk, batch, kv_head, warp_first);
  const Rows dv_rows = dense_rows(params.dv, batch, kv_head, warp_first);
  const Rows dkg_rows = dense_rows(params.dkg, batch, kv_head, warp_first);
  const float dk_scale[2] = {0.5f * params.softmax_scale, 0.5f * params.softmax_scale};
  const float dv_scale[2] = {0.5f, 0.5f};
  const float dkg_scale[2] = {0.25f * params.gate_scale, 0.25f * params.gate_scale};
  // Only this warp reads its rows of K, V and Kg, so they can become its scratch without a barrier.
  store_warp_rows<Element, D>(dk, dk_scale, k + my_rows, const_cast<u16*>(dk_rows.data), dk_rows.stride, warp_valid);
  store_warp_rows<Element, D>(dv, dv_scale, v + my_rows, const_cast<u16*>(dv_rows.data), dv_rows.stride, warp_valid);
  store_warp_rows<Element, R>(dkg, dkg_scale, kg + warp * 16 * Tile::Kg::row_bytes, const_cast<u16*>(dkg_rows.data),
                              dkg_rows.stride, warp_valid);
}

}  // namespace stratum::gated
