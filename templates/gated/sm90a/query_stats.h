// The statistics of streamed queries, which two producer warps bring into each stage in the form that the arithmetic
// takes them: tile_n floats each of offsets, -2 delta and reductions, then whether any of a warp's reductions is not 0.
#pragma once

#include "device/shared_tile.h"
#include "gated/sm90a/backward_pair.h"

namespace stratum::gated::sm90a {

STRATUM_DEVICE void store_shared_float(u32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// kQueries queries' place in shared memory.
template <int kQueries>
struct QueryStatsPlace {
  u32 base;

  // By both warps, all lanes: `stats` is of query `row`, if it is one of the place's.
  __device__ __forceinline__ void store(const QueryStats& stats, int row) const {
    if (row >= kQueries) return;
    store_shared_float(base + row * 4, stats.offset);
    store_shared_float(base + (kQueries + row) * 4, stats.minus_delta2);
    store_shared_float(base + (2 * kQueries + row) * 4, stats.reduce);
  }
  // By one lane of warp 0 or 1.
  __device__ __forceinline__ void store_far_out(bool far_out, int warp) const {
    store_shared(base + 3 * kQueries * 4 + warp * 4, far_out);
  }

  __device__ __forceinline__ bool far_out() const {
    const float2 words = load_shared_float2(base + 3 * kQueries * 4);
    return (__float_as_uint(words.x) | __float_as_uint(words.y)) != 0;
  }

  // The two of its 8 columns n that lane `lane` of an accumulator has.
  __device__ __forceinline__ Quad offsets(int n, int lane) const { return columns(0, n, lane); }
  __device__ __forceinline__ Quad minus_delta2s(int n, int lane) const { return columns(1, n, lane); }
  __device__ __forceinline__ Quad reductions(int n, int lane) const { return columns(2, n, lane); }

 private:
  __device__ __forceinline__ Quad columns(int which, int n, int lane) const {
    const float2 two = load_shared_float2(base + which * kQueries * 4 + n * 32 + (lane & 3) * 8);
    return {{two.x, two.y, two.x, two.y}};
  }
};

}  // namespace stratum::gated::sm90a
