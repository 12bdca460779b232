// Decode's sums over splits: consumers join what they have of a unit and store it; when all of a block's units are
// done, its warps take rows, wait for their partials, and join them.
//
// The order of a row's sum is fixed by its position: warps in order inside a split; 8 splits in order make a chunk; up
// to 8 chunks in order make a round; rounds in order. A split that the row doesn't see is never added.
#pragma once

#include "gated/sm90a/decode_tile.h"

namespace stratum::gated::sm90a {

STRATUM_DEVICE float4 load_relaxed(const float4* from) {
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

STRATUM_DEVICE float2 load_relaxed(const abi::PartialStats* from) {
  float2 v;
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(from) : "memory");
  return v;
}

STRATUM_DEVICE void store_relaxed(float4* to, const float4& v) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

STRATUM_DEVICE void store_relaxed(abi::PartialStats* to, float max, float sum) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(max), "f"(sum) : "memory");
}

STRATUM_DEVICE bool written(float x) { return __float_as_uint(x) != abi::kPartialMark; }
STRATUM_DEVICE bool written(const float2& x) { return written(x.x) && written(x.y); }
STRATUM_DEVICE bool written(const float4& x) { return written(x.x) && written(x.y) && written(x.z) && written(x.w); }

// Four columns of a row's sum, of which the sums of other keys are a part.
struct JoinedColumns {
  float max = -kInfinity, sum = 0.f;
  float4 o{0.f, 0.f, 0.f, 0.f};

  __device__ __forceinline__ void add(float factor, float part_sum, const float4& part) {
    sum = __fmaf_rn(factor, part_sum, sum);
    o = {__fmaf_rn(factor, part.x, o.x), __fmaf_rn(factor, part.y, o.y), __fmaf_rn(factor, part.z, o.z),
         __fmaf_rn(factor, part.w, o.w)};
  }
};

// The partials hold twice the gated sum.
template <class Tile>
STRATUM_DEVICE void store_output(const abi::GatedDecodeSm90aParams& params, i32 token, i32 head, int vector,
                                 const JoinedColumns& row) {
  const float scale = __fdiv_rn(0.5f, row.sum);
  u16* o = static_cast<u16*>(params.o.data) + token * params.o.token + head * params.o.head + vector * 4;
  using Element = typename Tile::Element;
  *reinterpret_cast<uint2*>(o) = {Element::pack(__fmul_rn(row.o.x, scale), __fmul_rn(row.o.y, scale)),
                                  Element::pack(__fmul_rn(row.o.z, scale), __fmul_rn(row.o.w, scale))};
}

// Joins the consumers' results of a unit: rows of one split are finished, others' partials stored.
template <class Tile>
STRATUM_DEVICE void store_unit(const abi::GatedDecodeSm90aParams& params, const DecodeUnit<Tile>& unit,
                               const float* results, const abi::PartialStats* stats, i32 group, int thread) {
  const i32 rows = min(Tile::rows, unit.num_tokens * group - unit.first_row);
  for (int i = thread; i < rows * Tile::vectors; i += Tile::consumers * 32) {
    const int row = i / Tile::vectors, vector = i % Tile::vectors;
    const i32 sequence_row = unit.first_row + row;
    const i32 token = sequence_row / group;
    const i32 last_split = (unit.cached + token) / abi::kSplitTokens;
    if (last_split < unit.split) continue;
    JoinedColumns joined;
    abi::PartialStats parts[Tile::consumers];
#pragma unroll
    for (int w = 0; w < Tile::consumers; ++w) {
      parts[w] = stats[w * Tile::rows + row];
      joined.max = fmaxf(joined.max, parts[w].max);
    }
#pragma unroll
    for (int w = 0; w < Tile::consumers; ++w) {
      const float* part = results + (w * Tile::rows + row) * Tile::result_stride + vector * 4;
      joined.add(part_factor(parts[w].max, joined.max, params.softmax_scale_log2), parts[w].sum,
                 *reinterpret_cast<const float4*>(part));
    }
    if (last_split == 0) {
      store_output<Tile>(params, unit.first_token + token, unit.kv_head * group + sequence_row % group, vector, joined);
      continue;
    }
    const i64 slot =
        (static_cast<i64>(unit.slots) * params.kv_heads + unit.kv_head) * params.rows_stride + sequence_row;
    store_relaxed(reinterpret_cast<float4*>(params.partial_o + slot * Tile::head_dim) + vector, joined.o);
    if (vector % 4 == 0) {
      store_relaxed(params.partial_stats + slot * Tile::stats_copies + vector / 4, joined.max, joined.sum);
    }
  }
}

// The partials of four columns of a row.
template <class Tile>
struct RowColumns {
  float4* o;
  abi::PartialStats* stats;
  i64 slots_a_split;

  __device__ __forceinline__ float4* o_of(i32 split) const { return o + split * slots_a_split * Tile::vectors; }
  __device__ __forceinline__ abi::PartialStats* stats_of(i32 split) const {
    return stats + split * slots_a_split * Tile::stats_copies;
  }

  // Waits for splits first ... first + count - 1, takes them, and joins them. All lanes call it, some with nothing to
  // take; all of a row's columns that share statistics are with one warp, so that none finds a mark put back too soon.
  __device__ __forceinline__ JoinedColumns take(i32 first, int count, bool stores_stats, float scale_log2) const {
    float2 part_stats[8];
    float4 part[8];
    bool all;
    do {
      all = true;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const i32 split = i < count ? first + i : 0;
        part_stats[i] = load_relaxed(stats_of(split));
        part[i] = load_relaxed(o_of(split));
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) all &= i >= count || (written(part_stats[i]) && written(part[i]));
    } while (!__all_sync(0xffffffffu, all));
    const float mark = __uint_as_float(abi::kPartialMark);
    JoinedColumns joined;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i >= count) continue;
      store_relaxed(o_of(first + i), float4{mark, mark, mark, mark});
      if (stores_stats) store_relaxed(stats_of(first + i), mark, mark);
      joined.max = fmaxf(joined.max, part_stats[i].x);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) joined.add(part_factor(part_stats[i].x, joined.max, scale_log2), part_stats[i].y, part[i]);
    }
    return joined;
  }
};

// Joins the chunks that the lanes hold, lane (chunk, column), into what all of a column's lanes have.
STRATUM_DEVICE void join_chunks(JoinedColumns& row, const JoinedColumns& own, int chunks, int columns, int column,
                                float scale_log2) {
  float largest = row.max;
  for (int c = 0; c < chunks; ++c) largest = fmaxf(largest, __shfl_sync(0xffffffffu, own.max, c * columns + column));
  JoinedColumns joined;
  joined.max = largest;
  joined.add(part_factor(row.max, largest, scale_log2), row.sum, row.o);
  const float own_factor = part_factor(own.max, largest, scale_log2);
  for (int c = 0; c < chunks; ++c) {
    const int from = c * columns + column;
    const float factor = __shfl_sync(0xffffffffu, own_factor, from);
    const float sum = __shfl_sync(0xffffffffu, own.sum, from);
    const float4 o{__shfl_sync(0xffffffffu, own.o.x, from), __shfl_sync(0xffffffffu, own.o.y, from),
                   __shfl_sync(0xffffffffu, own.o.z, from), __shfl_sync(0xffffffffu, own.o.w, from)};
    joined.add(factor, sum, o);
  }
  row = joined;
}

// A warp's share of the rows of more than one split.
template <class Tile>
struct RowMerge {
  int chunks_log2 = 0;  // of the chunks that the lanes take at a time
  i32 pieces, first_unit, end_unit;

  __device__ __forceinline__ RowMerge(const abi::GatedDecodeSm90aParams& params, int warp) {
    const i32 blocks = static_cast<i32>(gridDim.x);
    while (chunks_log2 < 3 && (8 << chunks_log2) < params.max_splits) ++chunks_log2;
    const i32 vectors = params.rows_stride * params.kv_heads * Tile::vectors;  // of a sequence with the most new tokens
    pieces = (vectors + columns() - 1) >> (5 - chunks_log2);
    const i32 units = params.max_splits > 1 ? params.num_sequences * pieces : 0;
    const i32 warps = blocks * Tile::consumers;
    const i32 share = (units + warps - 1) / warps;
    first_unit = (warp * blocks + static_cast<i32>(blockIdx.x)) * share;
    end_unit = min(first_unit + share, units);
  }
  __device__ __forceinline__ int columns() const { return 32 >> chunks_log2; }

  __device__ __forceinline__ void run(const abi::GatedDecodeSm90aParams& params, i32 group, int lane) const {
    const int column = lane & (columns() - 1), chunk = lane >> (5 - chunks_log2);
    for (i32 unit = first_unit; unit < end_unit; ++unit) {
      const abi::SequenceSlice& sequence = params.sequences[unit / pieces];
      const i32 index = unit % pieces * columns() + column;
      const int vector = index % Tile::vectors;
      const i32 row = index / Tile::vectors;  // (token, query head)
      const bool real = row < sequence.num_tokens * params.q_heads;
      const i32 token = real ? row / params.q_heads : 0, head = real ? row % params.q_heads : 0;
      const i32 last_split = (sequence.cached + token) / abi::kSplitTokens;
      const i32 count = real && last_split > 0 ? last_split + 1 : 0;
      const i64 slot = (static_cast<i64>(sequence.first_split) * params.kv_heads + head / group) * params.rows_stride +
                       token * group + head % group;
      const RowColumns<Tile> partials{
          .o = reinterpret_cast<float4*>(params.partial_o + slot * Tile::head_dim) + vector,
          .stats = params.partial_stats + slot * Tile::stats_copies + vector / 4,
          .slots_a_split = static_cast<i64>(params.kv_heads) * params.rows_stride,
      };
      JoinedColumns joined;
      const i32 splits = (sequence.cached + sequence.num_tokens - 1) / abi::kSplitTokens + 1;
      for (i32 first = 0; first < splits; first += 8 << chunks_log2) {
        const i32 own_first = first + chunk * 8;
        const JoinedColumns own =
            partials.take(own_first, min(8, count - own_first), vector % 4 == 0, params.softmax_scale_log2);
        join_chunks(joined, own, 1 << chunks_log2, columns(), column, params.softmax_scale_log2);
      }
      if (count > 0 && chunk == 0) store_output<Tile>(params, sequence.first_token + token, head, vector, joined);
    }
  }
};

}  // namespace stratum::gated::sm90a
