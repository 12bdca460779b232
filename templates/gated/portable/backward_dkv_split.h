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

#include "device/named_barrier.h"
#include "device/store_matrix.h"
#include "gated/portable/backward_dkv.h"

namespace stratum::gated {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, int kStages, int kHandOver,
          bool kKeyInRegisters, bool kValueInRegisters, bool kGateInRegisters>
struct BackwardDkvSplitTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN;
  static constexpr int stages = kStages, hand_over = kHandOver;
  static constexpr bool key_in_registers = kKeyInRegisters, value_in_registers = kValueInRegisters;
  static constexpr bool gate_in_registers = kGateInRegisters;
  static constexpr int threads = 256, role_threads = 128;
  static_assert(tile_m == 64, "two warps of 32 keys");
  static_assert(tile_n % 32 == 0 && tile_n <= role_threads, "each half of the queries is whole 16-row blocks");
  static_assert(head_dim % 32 == 0 && gate_dim % 32 == 0, "each half of the columns is whole 16-column blocks");
  static_assert(stages >= 3, "a stage is scored, one accumulated, one loaded");
  static_assert(hand_over == 1 || hand_over == 2, "barriers are numbered for two buffers");

  using K = SharedTile<tile_m, head_dim>;
  using Kg = SharedTile<tile_m, gate_dim>;
  using Q = SharedTile<tile_n, head_dim>;
  using Qg = SharedTile<tile_n, gate_dim>;
  using Weights = SharedTile<tile_m, tile_n>;  // W, dS or dT
  static constexpr int key_bytes = 2 * K::bytes + Kg::bytes;
  static constexpr int stats_bytes = tile_n * 12;  // RowStats, then delta
  static constexpr int stage_bytes = 2 * Q::bytes + Qg::bytes + stats_bytes;
  static constexpr int buffer_bytes = 3 * Weights::bytes;
  static constexpr int shared_bytes = key_bytes + stages * stage_bytes + hand_over * buffer_bytes;
  static_assert(stage_bytes % 16 == 0, "stages are 16-byte aligned");

  // The copying of query tiles, by the accumulating warps: backward_dkv.h's, with their number of threads.
  struct Loader {
    using Q = BackwardDkvSplitTile::Q;
    using Qg = BackwardDkvSplitTile::Qg;
    static constexpr int tile_n = kTileN, threads = role_threads;
  };
};

// Which barrier says what: full for each of W, dS and dT of hand-over buffer 0 or 1, free for those of a sole buffer
// (of two, step i + 2 finds its own free: loaded[i + 2] says that step i has been accumulated), loaded for even and odd
// steps.
enum HandOver { kW = 0, kDs = 1, kDt = 2 };
STRATUM_DEVICE int full_barrier(HandOver what, int buffer) { return 1 + what + buffer * 3; }
STRATUM_DEVICE int free_barrier(HandOver what) { return 7 + what; }
STRATUM_DEVICE int loaded_barrier(int step) { return 10 + (step & 1); }

// A ring of equal places in shared memory.
template <int kPlaces, int kBytes>
struct Ring {
  u32 first, offset = 0;
  __device__ __forceinline__ u32 address() const { return first + offset; }
  __device__ __forceinline__ int index() const { return kPlaces == 1 ? 0 : static_cast<int>(offset / kBytes); }
  __device__ __forceinline__ void advance() {
    if constexpr (kPlaces > 1) offset = offset == (kPlaces - 1) * kBytes ? 0 : offset + kBytes;
  }
};

// What a block works on: its keys, and its steps, query tiles first_tile ... last_tile - 1 of each head of the group.
struct DkvWork {
  int batch, kv_head, first, first_tile, last_tile, steps;
};

// The query rows of one step after the other.
template <int kTileN>
struct QueryStream {
  int tile, head;
  QueryTile rows;

  __device__ __forceinline__ QueryStream(const abi::GatedBackwardParams& params, const DkvWork& work)
      : tile(work.first_tile), head(work.kv_head * (params.q_heads / params.kv_heads)) {
    rows = query_tile(params, work.batch, head, tile * kTileN, true);
  }

  // Past the last step `exists` is false and no row valid.
  __device__ __forceinline__ void advance(const abi::GatedBackwardParams& params, const DkvWork& work, bool exists) {
    if (++tile == work.last_tile) {
      tile = work.first_tile;
      rows = query_tile(params, work.batch, ++head, tile * kTileN, exists);
    } else {
      rows.q.data += kTileN * rows.q.stride;
      rows.dout.data += kTileN * rows.dout.stride;
      rows.qg.data += kTileN * rows.qg.stride;
      rows.stats += kTileN;
      rows.delta += kTileN;
      rows.valid = exists ? rows.valid - kTileN : 0;
    }
  }
};

// 32 rows of an A operand.
template <class Tile, bool kHeld>
struct RowPair {
  RowOperand<Tile, kHeld> half[2];
  __device__ __forceinline__ RowPair(u32 rows, int lane)
      : half{RowOperand<Tile, kHeld>(rows, lane), RowOperand<Tile, kHeld>(rows + 16 * Tile::row_bytes, lane)} {}
  __device__ __forceinline__ void fragment(u32 (&a)[2][4], int k) const {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      if constexpr (kHeld) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[m][i] = half[m].held[k][i];
      } else {
        load_matrix_x4(a[m], half[m].address + k * 32);
      }
    }
  }
};

// c = A B^T for 32 rows of A: every fragment of B serves two products.
template <class Element, class BTile, class ATile, bool kHeld, class Beside = Nothing>
STRATUM_DEVICE void multiply_pair(float (&c)[2][BTile::rows / 8][4], const RowPair<ATile, kHeld>& rows, u32 b,
                                  const Beside& beside = {}) {
  constexpr int steps = BTile::columns / 16;
  clear(c[0]);
  clear(c[1]);
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    u32 a[2][4];
    rows.fragment(a, k);
#pragma unroll
    for (int n = 0; n < BTile::rows / 16; ++n) {
      u32 fragment[4];
      load_matrix_x4(fragment, b + k * 32 + n * 16 * BTile::row_bytes);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        Mma<Element>::accumulate(c[m][2 * n], a[m], fragment[0], fragment[1]);
        Mma<Element>::accumulate(c[m][2 * n + 1], a[m], fragment[2], fragment[3]);
      }
    }
    beside(k, steps);
  }
}

// c += A B for 32 rows of A in shared memory and kColumns of BTile's columns; `a` is this lane's LaneOffset::a address,
// `b` its LaneOffset::b_transposed address. `beside` is called once for 16 columns of each k-step.
template <class Element, class ATile, class BTile, int kColumns, class Beside = Nothing>
STRATUM_DEVICE void accumulate_pair(float (&c)[2][kColumns / 8][4], u32 a, u32 b, const Beside& beside = {}) {
  constexpr int steps = ATile::columns / 16;
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    u32 rows[2][4];
    load_matrix_x4(rows[0], a + k * 32);
    load_matrix_x4(rows[1], a + k * 32 + 16 * ATile::row_bytes);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      u32 fragment[4];
      load_matrix_x4_transposed(fragment, b + k * 16 * BTile::row_bytes + n * 32);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        Mma<Element>::accumulate(c[m][2 * n], rows[m], fragment[0], fragment[1]);
        Mma<Element>::accumulate(c[m][2 * n + 1], rows[m], fragment[2], fragment[3]);
      }
      beside(k * (kColumns / 16) + n, steps * (kColumns / 16));
    }
  }
}

// The scoring role. `warp` is 0 ... 3 within it.
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
    if (query_from_key < 31) {
      mask_queries<H>(s[0], query_from_key, lane);
      mask_queries<H>(s[1], query_from_key - 16, lane);
    }
    multiply_pair<Element, Qg>(t, a_kg, stage + qg_lane, [&](int k, int steps) {
      share<H / 8>(k, steps, [&](int n) {
        const float4 stats = load_shared_float4(stage + stats_lane + n * 64);
        const abi::RowStats rows[2] = {{stats.x, stats.y}, {stats.z, stats.w}};
#pragma unroll
        for (int i = 0; i < 8; ++i) s[i / 4][n][i % 4] = pair_probability(s[i / 4][n][i % 4], rows[i & 1], scales);
      });
    });
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

// The accumulating role. `warp` is 0 ... 3, `queries` are those of the step that comes after those in the stages.
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
