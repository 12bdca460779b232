// What the consumers of streamed queries need to know of them: statistics of a stage, and which the causal mask hides.
#pragma once

#include "device/math.h"
#include "gated/sm90a/query_stats.h"

namespace stratum::gated::sm90a {

// This thread's number in the block, read where it is needed: the loop has no register to keep it in.
STRATUM_DEVICE int thread_anew() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// The statistics of a stage, as PairArithmetic takes them.
template <class Tile>
struct QueryTileStats {
  QueryStatsPlace<Tile::tile_n> place;
  int lane = thread_anew() & 31;
  __device__ __forceinline__ explicit QueryTileStats(u32 place) : place{place} {}
  __device__ __forceinline__ Quad offsets(int n) const { return place.offsets(n, lane); }
  __device__ __forceinline__ Quad minus_delta2s(int n) const { return place.minus_delta2s(n, lane); }
};

// Hides what the causal mask hides: element 0 of the scores is query `first_query` and key `row`.
template <int kCount>
STRATUM_DEVICE void mask_queries(float (&s)[kCount], int first_query, int row, float hidden = -kInfinity) {
  const int first = row - first_query;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i / 4 * 8 + i % 2 < first + i / 2 % 2 * 8) s[i] = hidden;
  }
}

// Hides the queries behind a sequence's end, which are zeros: infinity times 0 is NaN, and so is 0 times a gate of
// that. Element 0 is the first of `existing` queries.
template <int kCount>
STRATUM_DEVICE void mask_missing_queries(float (&s)[kCount], float (&half_t)[kCount], int existing) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i / 4 * 8 + i % 2 >= existing) {
      s[i] = -kInfinity;
      half_t[i] = 0.f;
    }
  }
}

}  // namespace stratum::gated::sm90a
