// Decode's consumers: each of the four warps attends from a unit's 8 rows to its 16 keys of every page.
//
// Keys are the m of the products, rows the n: S = K Q^T, T = Kg Qg^T, O^T = V^T W^T. What warp w sees of a split are
// the keys at 16 w ... 16 w + 15 of each page, so its state depends on absolute positions alone.
#pragma once

#include "device/mma.h"
#include "device/tma.h"
#include "gated/sm90a/decode_tile.h"

namespace stratum::gated::sm90a {

// The transpose of an 8x8 matrix of 16-bit elements that a warp holds as the MMA's fragments.
STRATUM_DEVICE u32 transpose_8x8(u32 matrix) {
  u32 transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(matrix));
  return transposed;
}

// The larger or the sum over the 8 lanes that hold the same column of an MMA accumulator.
STRATUM_DEVICE float column_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
}

STRATUM_DEVICE float column_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 4);
  x += __shfl_xor_sync(0xffffffffu, x, 8);
  return x + __shfl_xor_sync(0xffffffffu, x, 16);
}

template <class Tile>
struct DecodeConsumer {
  using Element = typename Tile::Element;
  static constexpr int D = Tile::head_dim, R = Tile::gate_dim;

  const abi::GatedDecodeSm90aParams& params;
  int warp, lane;
  i32 group;
  u32 q[D / 16][2], qg[R / 16][2];
  float o[D / 16][4];
  float max[2], base[2], sum[2];
  i32 last_visible[2];  // positions, of the thread's two rows

  __device__ __forceinline__ DecodeConsumer(const abi::GatedDecodeSm90aParams& given, int own_warp, int own_lane)
      : params(given), warp(own_warp), lane(own_lane), group(given.q_heads / given.kv_heads) {}

  // The fragments of row lane / 4.
  template <int kSteps>
  __device__ __forceinline__ void load_rows(u32 (&fragments)[kSteps][2], const u8* rows, int stride) {
    const u32* from = reinterpret_cast<const u32*>(rows + (lane >> 2) * stride) + (lane & 3);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      fragments[k][0] = from[k * 8];
      fragments[k][1] = from[k * 8 + 4];
    }
  }

  __device__ __forceinline__ void start(const DecodeUnit<Tile>& unit, const u8* place) {
    load_rows(q, place, Tile::q_stride);
    load_rows(qg, place + Tile::qg_at, Tile::qg_stride);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const i32 row = unit.first_row + (lane & 3) * 2 + r;
      last_visible[r] = unit.cached + min(row / group, unit.num_tokens - 1);
      max[r] = -kInfinity;
      base[r] = 0.f;
      sum[r] = 0.f;
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[d][i] = 0.f;
    }
  }

  // Puts the rows of new tokens among the warp's 16 keys into a tile of the stage. Rows past the sequence's end become
  // zeros: nothing may have written them. `rows` are the new tokens' in the unit's place.
  template <class Rows>
  __device__ __forceinline__ void fill_rows(u32 tile, const u8* rows, const DecodeUnit<Tile>& unit, i32 first_key) {
    constexpr int chunks = Rows::columns / 8, chunks_per_block = Rows::block_columns / 8;
#pragma unroll 4
    for (int i = lane; i < 16 * chunks; i += 32) {
      const int row = warp * 16 + i / chunks, chunk = i % chunks;
      const i32 token = first_key + row - unit.cached;
      if (token < 0) continue;
      uint4 value{0, 0, 0, 0};
      if (token < unit.num_tokens) {
        value = *reinterpret_cast<const uint4*>(rows + token * Tile::token_bytes + chunk * 16);
      }
      store_shared_16(
          tile + chunk / chunks_per_block * Rows::block_bytes + Rows::chunk_offset(row, chunk % chunks_per_block),
          value);
    }
  }

  __device__ __forceinline__ void take_new_tokens(u32 stage, const u8* place, const DecodeUnit<Tile>& unit,
                                                  i32 first_key) {
    const u8* rows = place + Tile::new_at;
    fill_rows<typename Tile::K>(stage, rows, unit, first_key);
    fill_rows<typename Tile::K>(stage + Tile::v_at, rows + D * 2, unit, first_key);
    fill_rows<typename Tile::Kg>(stage + Tile::kg_at, rows + D * 4, unit, first_key);
    fence_proxy_async();  // TMA overwrites the stage some time
    __syncwarp();
  }

  // c += the warp's 16 keys of a tile times the rows.
  template <class Keys, int kSteps>
  __device__ __forceinline__ void score(float (&c)[4], u32 tile, const u32 (&rows)[kSteps][2]) {
    constexpr int steps_per_block = Keys::block_columns / 16;
    const int row = warp * 16 + (lane & 15);
    float odd[4] = {0.f, 0.f, 0.f, 0.f};  // a second chain of products halves the time that they wait for each other
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const int chunk = k % steps_per_block * 2 + (lane >> 4);
      u32 keys[4];
      load_matrix_x4(keys, tile + k / steps_per_block * Keys::block_bytes + Keys::chunk_offset(row, chunk));
      Mma<Element>::accumulate(k % 2 == 0 ? c : odd, keys, rows[k][0], rows[k][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) c[i] += odd[i];
  }

  __device__ __forceinline__ void hide(float (&s)[4], float (&t)[4], i32 first_key) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const i32 key = first_key + warp * 16 + (lane >> 2) + i / 2 * 8;
      if (key > last_visible[i % 2]) {
        s[i] = -kInfinity;
        t[i] = 0.f;
      }
    }
  }

  // Takes in the warp's keys of a page.
  __device__ __forceinline__ void attend(u32 stage, i32 first_key, bool some_hidden) {
    float s[4] = {0.f, 0.f, 0.f, 0.f}, t[4] = {0.f, 0.f, 0.f, 0.f};
    score<typename Tile::K>(s, stage, q);
    score<typename Tile::Kg>(t, stage + Tile::kg_at, qg);
    if (some_hidden) hide(s, t, first_key);
    float rescale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float largest = fmaxf(max[r], column_max(fmaxf(s[r], s[r + 2])));
      rescale[r] = part_factor(max[r], largest, params.softmax_scale_log2);
      base[r] = subtrahend(largest);
      max[r] = largest;
      sum[r] = __fmul_rn(sum[r], rescale[r]);
    }
    float w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float p = fast_exp2(__fmul_rn(s[i] - base[i % 2], params.softmax_scale_log2));
      sum[i % 2] = __fadd_rn(sum[i % 2], p);
      w[i] = __fmaf_rn(p, fast_tanh(__fmul_rn(t[i], params.gate_half_scale)), p);
    }
    const u32 w_low = transpose_8x8(Element::pack(w[0], w[1])), w_high = transpose_8x8(Element::pack(w[2], w[3]));
    const int row = warp * 16 + (lane >> 4) * 8 + (lane & 7);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[d][i] = __fmul_rn(o[d][i], rescale[i % 2]);
      u32 values[4];
      load_matrix_x4_transposed(values, stage + Tile::v_at + d / 4 * Tile::K::block_bytes +
                                            Tile::K::chunk_offset(row, d % 4 * 2 + (lane >> 3 & 1)));
      Mma<Element>::accumulate(o[d], values, w_low, w_high);
    }
  }

  // Leaves the warp's O and statistics for all consumers to join.
  __device__ __forceinline__ void leave_result(float* results, abi::PartialStats* stats) {
    float* own = results + (warp * Tile::rows + (lane & 3) * 2) * Tile::result_stride + (lane >> 2);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      own[d * 16] = o[d][0];
      own[Tile::result_stride + d * 16] = o[d][1];
      own[d * 16 + 8] = o[d][2];
      own[Tile::result_stride + d * 16 + 8] = o[d][3];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float row_sum = column_sum(sum[r]);
      if (lane < 4) stats[warp * Tile::rows + lane * 2 + r] = {max[r], row_sum};
    }
  }
};

}  // namespace stratum::gated::sm90a
