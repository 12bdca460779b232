// Joins the partials of a wave's splits into the output, one warp a (token, query head).
//
// A row at position p has partials in its own splits only, 0 ... p / 512. Lanes hold the maxima of up to 32 splits at a
// time; each lane owns pairs of columns, reads them coalesced and adds the splits one by one, in ascending order, so
// the order of the sum depends on the position alone. The partials hold twice the gated sum: o = 0.5 acc / l.
//
// Registers: 2 a pair of columns and 2 a pair in flight for each of 8 splits. No shared memory.
#pragma once

#include "gated/portable/find_sequence.h"
#include "gated/portable/online_softmax.h"

namespace stratum::gated {

template <class Element_, int kHeadDim, int kWarps>
struct DecodeMergeTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim;
  static constexpr int warps = kWarps, threads = warps * 32;
  static constexpr int pairs = head_dim / 2;            // of columns
  static constexpr int lane_pairs = (pairs + 31) / 32;  // lane i owns pairs i, i + 32, ...
  static constexpr int batch = 8;                       // splits in flight
};

// The partials of one row: those of split i start at i * stride slots.
struct RowPartials {
  const float* o;
  const abi::PartialStats* stats;
  i64 stride;
  i32 count;
};

// The row's largest score over all of its splits.
STRATUM_DEVICE float row_max(const RowPartials& row, int lane) {
  float max = -kInfinity;
  for (i32 i = lane; i < row.count; i += 32) max = fmaxf(max, row.stats[i * row.stride].max);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, distance));
  return max;
}

template <class Tile>
STRATUM_DEVICE void join_splits(float2 (&acc)[Tile::lane_pairs], float& sum, const RowPartials& row,
                                float softmax_scale_log2, int lane) {
  const float max = row_max(row, lane);
  for (i32 first = 0; first < row.count; first += 32) {
    abi::PartialStats stats{-kInfinity, 0.f};
    if (first + lane < row.count) stats = row.stats[(first + lane) * row.stride];
    const float factor_of_lane = part_factor(stats.max, max, softmax_scale_log2);
    const int here = min(32, row.count - first);
    for (int i = 0; i < here; i += Tile::batch) {
      float2 part[Tile::batch][Tile::lane_pairs];
#pragma unroll
      for (int j = 0; j < Tile::batch; ++j) {
        const float2* columns =
            reinterpret_cast<const float2*>(row.o + (first + min(i + j, here - 1)) * row.stride * Tile::head_dim);
#pragma unroll
        for (int p = 0; p < Tile::lane_pairs; ++p) part[j][p] = columns[min(lane + p * 32, Tile::pairs - 1)];
      }
#pragma unroll
      for (int j = 0; j < Tile::batch; ++j) {
        if (i + j >= here) break;
        const float factor = __shfl_sync(0xffffffffu, factor_of_lane, i + j);
        sum = fmaf(factor, __shfl_sync(0xffffffffu, stats.sum, i + j), sum);
#pragma unroll
        for (int p = 0; p < Tile::lane_pairs; ++p) {
          acc[p] = {fmaf(factor, part[j][p].x, acc[p].x), fmaf(factor, part[j][p].y, acc[p].y)};
        }
      }
    }
  }
}

// Grid: (token, query head) of the wave, heads fastest, `warps` of them a block.
template <class Tile>
STRATUM_DEVICE void decode_merge(const abi::GatedDecodeMergeParams& params) {
  const int lane = threadIdx.x & 31;
  const i64 unit = static_cast<i64>(blockIdx.x) * Tile::warps + (threadIdx.x >> 5);
  if (unit >= static_cast<i64>(params.num_tokens) * params.q_heads) return;
  const i32 token = params.first_token + static_cast<i32>(unit / params.q_heads);
  const i32 head = static_cast<i32>(unit % params.q_heads);

  const abi::SequenceSlice* wave = params.sequences + params.first_sequence;
  const abi::SequenceSlice sequence = wave[find_sequence(wave, params.num_sequences, token)];
  const i32 local_token = token - sequence.first_token;
  const i32 group = params.q_heads / params.kv_heads;
  const i64 slot = (static_cast<i64>(sequence.first_split) * params.kv_heads + head / group) * params.rows_stride +
                   local_token * group + head % group;
  const RowPartials row{
      .o = params.partial_o + slot * Tile::head_dim,
      .stats = params.partial_stats + slot,
      .stride = static_cast<i64>(params.kv_heads) * params.rows_stride,
      .count = (sequence.cached + local_token) / abi::kSplitTokens + 1,
  };

  float2 acc[Tile::lane_pairs];
#pragma unroll
  for (int p = 0; p < Tile::lane_pairs; ++p) acc[p] = {0.f, 0.f};
  float sum = 0.f;
  join_splits<Tile>(acc, sum, row, params.softmax_scale_log2, lane);

  const float scale = __fdiv_rn(0.5f, sum);
  u32* o = reinterpret_cast<u32*>(static_cast<u16*>(params.o.data) + token * params.o.token + head * params.o.head);
#pragma unroll
  for (int p = 0; p < Tile::lane_pairs; ++p) {
    const int pair = lane + p * 32;
    if (pair < Tile::pairs) o[pair] = Tile::Element::pack(__fmul_rn(acc[p].x, scale), __fmul_rn(acc[p].y, scale));
  }
}

}  // namespace stratum::gated
