// The online softmax of an accumulator's rows, and the gate, for tiles of scores in wgmma's layout.
//
// Exponentials are exp2(s c - M) with one fused multiply-add, M = max c rounded. What M's rounding adds, 2^d, is the same
// for all of a row and goes away when the output is divided by the sum. It is small while |M| is: beyond kLargest scores
// are reduced by their maximum first, so that logits of any size are right.
#pragma once

#include "device/math.h"

namespace stratum::gated::sm90a {

// The rounding of M is then 2^-13 at most, and changes weights by less than their 16-bit rounding does.
inline constexpr float kLargestOffset = 4096.f;

STRATUM_DEVICE float polynomial_exp2(float x) {
  x = fmaxf(x, -126.f);
  const float shifted = x + 12582912.f;
  const float f = x - (shifted - 12582912.f);
  float p = fmaf(0.055171669074864024f, f, 0.24261112219433098f);
  p = fmaf(p, f, 0.6932609854573362f);
  p = fmaf(p, f, 0.9999280735404955f);
  return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}

// A thread's two rows, r and r + 8 of sixteen: elements 4 i, 4 i + 1 and 4 i + 2, 4 i + 3 of an accumulator.
struct RowSoftmax {
  float max[2] = {-kInfinity, -kInfinity};  // of q.k, unscaled
  float offset[2] = {0.f, 0.f};             // what scaled scores are reduced by
  float sum[2] = {0.f, 0.f};                // over this thread's columns
  bool large = false;

  // Takes in the scores of a tile; gives the factors by which the rows' outputs so far are to be rescaled.
  template <int kCount>
  __device__ __forceinline__ void raise(float (&rescale)[2], float (&s)[kCount], float scale_log2) {
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float even = max[r], odd = s[2 * r + 1];
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i) {
        even = fmaxf(even, s[4 * i + 2 * r]);
        if (i > 0) odd = fmaxf(odd, s[4 * i + 2 * r + 1]);
      }
      const float largest = quad_max(fmaxf(even, odd));
      base[r] = largest == -kInfinity ? 0.f : largest;  // a row that sees none of these keys
      rescale[r] = fast_exp2((max[r] - base[r]) * scale_log2);
      offset[r] = base[r] * scale_log2;
      max[r] = largest;
      sum[r] *= rescale[r];
    }
    large = __any_sync(0xffffffffu, fmaxf(fabsf(offset[0]), fabsf(offset[1])) > kLargestOffset);
    if (large) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] -= base[i / 2 % 2];
      offset[0] = offset[1] = 0.f;
    }
  }

  // Turns scores into twice the gated weights, 2 p sigmoid(t), packed as the A operand of a product; `tanh_half` is
  // tanh of half the gate's scores. `part` becomes the sums of p.
  template <class Element, int kPoly, int kCount>
  __device__ __forceinline__ void weigh(u32 (&w)[kCount / 8][4], float (&part)[2], const float (&s)[kCount],
                                        const float (&tanh_half)[kCount], float scale_log2) const {
    part[0] = part[1] = 0.f;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      float weight[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float x = fmaf(s[2 * i + j], scale_log2, -offset[i % 2]);
        const float p = (i / 2 * 2 + j) % 8 < kPoly ? polynomial_exp2(x) : fast_exp2(x);
        part[i % 2] += p;
        weight[j] = fmaf(p, tanh_half[2 * i + j], p);
      }
      w[i / 4][i % 4] = Element::pack(weight[0], weight[1]);
    }
  }
  __device__ __forceinline__ void add(const float (&part)[2]) {
    sum[0] += part[0];
    sum[1] += part[1];
  }
  // Whether a row's scores are so far above its maximum so far that it has to be raised.
  __device__ __forceinline__ bool outgrown(const float (&part)[2]) const {
    return !(fmaxf(part[0], part[1]) < 16384.f) || large;
  }
};

// Hides what the causal mask hides from this thread's rows: its element 0 is key `first_key` and query row `row`.
template <int kCount>
STRATUM_DEVICE void mask_scores(float (&s)[kCount], int first_key, int row) {
  const int last = row - first_key;
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (8 * i + e % 2 > last + e / 2 * 8) s[4 * i + e] = -kInfinity;
    }
  }
}

}  // namespace stratum::gated::sm90a
