// The online softmax over key tiles that forward and prefill share. One block owns tile_m query rows of one head.
//
//     all threads   cp.async key tile j+1 ──▶ stage (j+1) % 2          │ runs beside
//     each warp     16 rows:  S = Q K^T   T = Qg Kg^T                   │ the products
//                             m, l, p = exp2((S - m) c)                 │ of tile j
//                             w = p + p tanh(T / 2)    (twice p sigmoid(T))
//                             O = O rescale + w V
//
// One __syncthreads a key tile: it says both that tile j has landed for everyone and that nobody still reads the stage
// that tile j+1 goes to. Warps share nothing else, so the softmax of one overlaps the products of another.
//
// A row's bits depend on its own position and data alone: key tiles sit at absolute multiples of tile_n in ascending
// order, and a tile that lies wholly behind a row's mask leaves its state as it is (rescale factor exactly 1, w exactly
// 0), so it may be skipped or not.
//
// Registers (D 128, R 64, tile_n 64): O 64, S 32, T 32, Q and Qg 48 when kept there. Shared memory: two stages of
// K, V [tile_n][D] and Kg [tile_n][R], and Q, Qg unless they live in registers (they then pass through the stages).
#pragma once

#include "abi/gated.h"
#include "device/copy_tile.h"
#include "device/math.h"
#include "gated/portable/fragments.h"
#include "gated/portable/online_softmax.h"

namespace stratum::gated {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, bool kQueryInRegisters>
struct AttendTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN;
  static constexpr int threads = tile_m * 2;  // a warp owns 16 rows
  static constexpr bool query_in_registers = kQueryInRegisters;

  using Q = SharedTile<tile_m, head_dim>;
  using Qg = SharedTile<tile_m, gate_dim>;
  using K = SharedTile<tile_n, head_dim>;
  using Kg = SharedTile<tile_n, gate_dim>;
  static constexpr int query_bytes = Q::bytes + Qg::bytes;
  static constexpr int stage_bytes = 2 * K::bytes + Kg::bytes;
  static constexpr int shared_bytes = query_in_registers
                                          ? (query_bytes > 2 * stage_bytes ? query_bytes : 2 * stage_bytes)
                                          : query_bytes + 2 * stage_bytes;
  static_assert(tile_m * (head_dim * 2 + 16) <= shared_bytes, "the output passes through shared memory");
};

// Keys and values of one key tile, and how many of its rows exist.
struct KeyRows {
  Rows k, v, kg;
  int valid;
};

// The query rows of one block: positions first_position ... of a sequence that has num_keys keys.
struct QueryRows {
  Rows q, qg;
  int valid;
  int first_position;
  int num_keys;
};

// Where their results go.
struct ResultRows {
  u16* o;
  i64 o_stride;
  abi::RowStats* stats;  // of the first row, or null
};

// The copies that bring one key tile into its stage, K then Kg then V: `load_keys` starts them all, `load_keys_share`
// the share that falls to one step of a product, since a batch of them would hold up the products' operand loads. Past
// the last tile `rows.valid` is at most 0 and nothing is read.
template <class Tile>
STRATUM_DEVICE void load_keys_piece(int piece, u32 stage, const KeyRows& rows) {
  using KCopy = TileCopy<typename Tile::K, Tile::threads>;
  using KgCopy = TileCopy<typename Tile::Kg, Tile::threads>;
  if (piece < KCopy::pieces) {
    KCopy::issue(piece, stage, rows.k, rows.valid);
  } else if (piece < KCopy::pieces + KgCopy::pieces) {
    KgCopy::issue(piece - KCopy::pieces, stage + Tile::K::bytes, rows.kg, rows.valid);
  } else {
    KCopy::issue(piece - KCopy::pieces - KgCopy::pieces, stage + Tile::K::bytes + Tile::Kg::bytes, rows.v, rows.valid);
  }
}

template <class Tile>
inline constexpr int key_pieces =
    2 * TileCopy<typename Tile::K, Tile::threads>::pieces + TileCopy<typename Tile::Kg, Tile::threads>::pieces;

template <class Tile>
STRATUM_DEVICE void load_keys(u32 stage, const KeyRows& rows) {
#pragma unroll
  for (int piece = 0; piece < key_pieces<Tile>; ++piece) load_keys_piece<Tile>(piece, stage, rows);
}

template <class Tile>
STRATUM_DEVICE void load_keys_share(int step, int steps, u32 stage, const KeyRows& rows) {
  share<key_pieces<Tile>>(step, steps, [&](int piece) { load_keys_piece<Tile>(piece, stage, rows); });
}

// Hides what the causal mask hides: column j of the tile is key first_key + j, row r sees keys up to position + r. The
// gate `t` too: it may be NaN, of an infinity times the zeros behind the last key, and 0 times NaN is no 0.
template <int kColumns>
STRATUM_DEVICE void mask_keys(float (&s)[kColumns / 8][4], float (&t)[kColumns / 8][4], int first_key, int position,
                              int lane) {
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + n * 8 + (lane & 3) * 2 + (i & 1);
      if (key > position + (lane >> 2) + (i / 2) * 8) {
        s[n][i] = -kInfinity;
        t[n][i] = 0.f;
      }
    }
  }
}

// `Keys` gives the key tiles: keys.tile(exists, first) are the rows of keys first ... first + tile_n - 1, none of them
// valid if the tile doesn't exist. `results()` gives the ResultRows, at the end, so that no registers hold them before.
template <class Tile, class Keys, class Results>
STRATUM_DEVICE void attend(u32 shared, Keys keys, const QueryRows& query, const Scales& scales,
                           const Results& results) {
  using Element = typename Tile::Element;
  constexpr int D = Tile::head_dim, N = Tile::tile_n;
  using K = typename Tile::K;
  using Kg = typename Tile::Kg;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int position = query.first_position + warp * 16;  // of this warp's first row
  const int visible = min(query.first_position + query.valid, query.num_keys);
  const int num_tiles = (visible + N - 1) / N;

  // Queries first; where they move on to registers, the stages reuse their place.
  const u32 stages = Tile::query_in_registers ? shared : shared + Tile::query_bytes;
  copy_tile_async<typename Tile::Q, Tile::threads>(shared, query.q, query.valid);
  copy_tile_async<typename Tile::Qg, Tile::threads>(shared + Tile::Q::bytes, query.qg, query.valid);
  cp_async_commit();
  if constexpr (Tile::query_in_registers) {
    cp_async_wait<0>();
    __syncthreads();
  }
  const RowOperand<typename Tile::Q, Tile::query_in_registers> q(shared + warp * 16 * Tile::Q::row_bytes, lane);
  const RowOperand<typename Tile::Qg, Tile::query_in_registers> qg(
      shared + Tile::Q::bytes + warp * 16 * Tile::Qg::row_bytes, lane);
  if constexpr (Tile::query_in_registers) __syncthreads();
  load_keys<Tile>(stages, keys.tile(true, 0));
  cp_async_commit();

  float o[D / 8][4];
  clear(o);
  OnlineSoftmax softmax;
  const u32 k_lane = LaneOffset<K>::b(lane);
  const u32 kg_lane = K::bytes + LaneOffset<Kg>::b(lane);
  const u32 v_lane = K::bytes + Kg::bytes + LaneOffset<K>::b_transposed(lane);

  for (int tile = 0; tile < num_tiles; ++tile) {
    const u32 stage = stages + (tile & 1) * Tile::stage_bytes;
    cp_async_wait<0>();
    __syncthreads();
    const u32 next_stage = stages + ((tile + 1) & 1) * Tile::stage_bytes;
    const KeyRows next = keys.tile(tile + 1 < num_tiles, (tile + 1) * N);
    if (tile * N > position + 15) {  // wholly behind this warp's mask
      load_keys<Tile>(next_stage, next);
      cp_async_commit();
      continue;
    }

    // Beside the products: the next tile's copies beside T, the gate's tanh beside S, the weights of one k-step beside
    // the step before.
    float s[N / 8][4], t[N / 8][4];
    multiply<Element, Kg>(t, qg, stage + kg_lane,
                          [&](int step, int steps) { load_keys_share<Tile>(step, steps, next_stage, next); });
    cp_async_commit();
    multiply<Element, K>(s, q, stage + k_lane, [&](int step, int steps) {
      share<N / 2>(step, steps, [&](int i) { t[i / 4][i % 4] = fast_tanh(t[i / 4][i % 4] * scales.gate_half); });
    });
    if (tile * N + N - 1 > position) mask_keys<N>(s, t, tile * N, position, lane);

    float rescale[2];
    softmax.raise(rescale, s, scales);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] *= rescale[i / 2];
    }
    u32 w[N / 16][4];
    const auto weigh = [&](int n) {
      softmax.weigh(s[n], t[n], scales);
      pack_operand<Element>(w, n, s[n]);
    };
    weigh(0);
    weigh(1);
#pragma unroll
    for (int k = 0; k < N / 16; ++k) {
      accumulate_step<Element, K>(o, w[k], stage + v_lane, k, [&](int step, int steps) {
        if (k + 1 < N / 16) share<2>(step, steps, [&](int i) { weigh(2 * k + 2 + i); });
      });
    }
  }

  // The stages become scratch for the output: nobody reads them any more, and no copy (zeros past the end) is under
  // way.
  cp_async_wait<0>();
  __syncthreads();
  const float sum[2] = {quad_sum(softmax.sum[0]), quad_sum(softmax.sum[1])};
  const float inverse[2] = {0.5f / sum[0], 0.5f / sum[1]};
  const int warp_valid = query.valid - warp * 16;
  const ResultRows to = results();
  store_warp_rows<Element, D>(o, inverse, shared + warp * 16 * Tile::Q::row_bytes, to.o + warp * 16 * to.o_stride,
                              to.o_stride, warp_valid);
  if (to.stats != nullptr && (lane & 3) == 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = (lane >> 2) + r * 8;
      if (row < warp_valid) to.stats[warp * 16 + row] = {softmax.max[r], fast_log2(sum[r])};
    }
  }
}

}  // namespace stratum::gated
