// The online softmax of an accumulator's rows, and the gate, for tiles of scores in wgmma's layout.
//
// The maximum is only looked for where it matters. A row's first tile sets it; from then on exponentials are taken with
// the maximum there is, and a tile is weighed again with a new one if its sum says that the row has outgrown it: its
// scores are still in their registers, which nobody needs before the next ones arrive. So most tiles need no maximum,
// no exchange between lanes, and no rescaling of the output: a quarter of the instructions of the usual rule. Exponentials stay below kOutgrown, which both 16-bit types hold twice, and sums of them are exact
// enough: dividing by the sum in the end takes the common factor away.
//
// Exponentials are exp2(s c - M) with one fused multiply-add, M = max c rounded. What M's rounding adds, 2^d, is the
// same for all of a row and goes away as well. It is small while |M| is: beyond kLargestOffset scores are reduced by
// their maximum first, so that logits of any size are right.
#pragma once

#include "device/math.h"

namespace stratum::gated::sm90a {

// The rounding of M is then 2^-13 at most, and changes weights by less than their 16-bit rounding does.
inline constexpr float kLargestOffset = 4096.f;
// The largest sum of a thread's exponentials in a tile that is let pass.
inline constexpr float kOutgrown = 16384.f;

// Whether any of the four threads of a row says so.
STRATUM_DEVICE bool quad_any(bool x) {
  const int first = threadIdx.x & 28;
  return (__ballot_sync(0xffffffffu, x) >> first & 0xf) != 0;
}

// A thread's two rows, r and r + 8 of sixteen: elements 4 i, 4 i + 1 and 4 i + 2, 4 i + 3 of an accumulator.
struct RowSoftmax {
  float max[2] = {-kInfinity, -kInfinity};  // what scores are reduced by: q.k, unscaled, of some key
  float sum[2] = {0.f, 0.f};                // of the exponentials of this thread's columns

  // What scaled scores are reduced by as long as the maximum stays.
  __device__ __forceinline__ void offsets(float (&offset)[2], float scale_log2) const {
    offset[0] = max[0] * scale_log2;
    offset[1] = max[1] * scale_log2;
  }

  // Raises the maximum of the rows that `which` says to a tile's scores; gives what these are to be reduced by, and the
  // factors by which the rows' outputs so far are to be rescaled.
  template <int kCount>
  __device__ __forceinline__ void raise(const bool (&which)[2], float (&rescale)[2], float (&offset)[2],
                                        float (&s)[kCount], float scale_log2) {
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float even = max[r], odd = s[2 * r + 1];
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i) {
        even = fmaxf(even, s[4 * i + 2 * r]);
        if (i > 0) odd = fmaxf(odd, s[4 * i + 2 * r + 1]);
      }
      const float joint = quad_max(fmaxf(even, odd));  // by all lanes, whose rows differ
      const float largest = which[r] ? joint : max[r];
      base[r] = largest == -kInfinity ? 0.f : largest;  // a row that sees none of these keys
      rescale[r] = fast_exp2((max[r] - base[r]) * scale_log2);
      offset[r] = base[r] * scale_log2;
      max[r] = largest;
      sum[r] *= rescale[r];
    }
    if (__any_sync(0xffffffffu, fmaxf(fabsf(offset[0]), fabsf(offset[1])) > kLargestOffset)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] -= base[i / 2 % 2];
      offset[0] = offset[1] = 0.f;
    }
  }

  // Turns scores into twice the gated weights, 2 p sigmoid(t), packed as the A operand of a product; `half_t` is half
  // the gate's score. `part` becomes the sums of p.
  template <class Element, int kCount>
  STRATUM_DEVICE void weigh(u32 (&w)[kCount / 8][4], float (&part)[2], const float (&s)[kCount],
                            const float (&half_t)[kCount], const float (&offset)[2], float scale_log2) {
    part[0] = part[1] = 0.f;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      float weight[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float p = fast_exp2(fmaf(s[2 * i + j], scale_log2, -offset[i % 2]));
        part[i % 2] += p;
        weight[j] = fmaf(p, fast_tanh(half_t[2 * i + j]), p);
      }
      w[i / 4][i % 4] = Element::pack(weight[0], weight[1]);
    }
  }

  // Whether any row of the warp is to be weighed again, for which `raise` is done then: it has outgrown its maximum (or
  // has seen no key before, or holds a NaN), or its scores are too large to be reduced after scaling. The four threads
  // of a row may differ, and agree.
  template <int kCount>
  __device__ __forceinline__ bool outgrown(const float (&part)[2], float (&offset)[2], float (&rescale)[2],
                                           float (&s)[kCount], float scale_log2) {
    bool rows[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) rows[r] = !(part[r] < kOutgrown) || fabsf(offset[r]) > kLargestOffset;
    if (!__any_sync(0xffffffffu, rows[0] || rows[1])) return false;
    rows[0] = quad_any(rows[0]);
    rows[1] = quad_any(rows[1]);
    raise(rows, rescale, offset, s, scale_log2);
    return true;
  }

  __device__ __forceinline__ void add(const float (&part)[2]) {
    sum[0] += part[0];
    sum[1] += part[1];
  }
};

}  // namespace stratum::gated::sm90a
