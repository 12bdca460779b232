// Softmax over keys that are taken in parts: within a part by the online rule, and parts joined in a fixed order.
//
// A part that hides all of its keys from a row is exactly nothing to it: its weights are 0 and its maximum is -inf,
// which every function here allows. Maxima are of q.k itself; subtracting before scaling keeps s - max exact for any
// size of logit. A NaN score leaves the maximum alone and stays in its own row's sum and output.
#pragma once

#include "abi/gated.h"
#include "device/math.h"

namespace stratum::gated {

// What to subtract from scores whose largest is `max`: -inf - -inf would be NaN.
STRATUM_DEVICE float subtrahend(float max) { return max == -kInfinity ? 0.f : max; }

// The factor of a part whose largest score is `max` when it joins parts whose largest is `joint_max`.
STRATUM_DEVICE float part_factor(float max, float joint_max, float softmax_scale_log2) {
  return fast_exp2((max - subtrahend(joint_max)) * softmax_scale_log2);
}

// The softmax state of an MMA thread's two rows, r and r + 8 of sixteen.
struct RowPairSoftmax {
  float max[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0.f, 0.f};  // over this thread's columns; quad_sum makes it the row's

  // Takes scores s and gate scores t of 8 * kTiles keys and leaves twice the gated weights, 2 p sigmoid(t), in s.
  // `rescale` becomes the factors by which the two rows' outputs so far must be multiplied.
  template <int kTiles>
  __device__ __forceinline__ void weigh(float (&s)[kTiles][4], const float (&t)[kTiles][4], float (&rescale)[2],
                                        float softmax_scale_log2, float gate_half_scale) {
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = max[r];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) largest = fmaxf(largest, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
      largest = quad_max(largest);
      rescale[r] = part_factor(max[r], largest, softmax_scale_log2);
      base[r] = subtrahend(largest);
      max[r] = largest;
      sum[r] *= rescale[r];
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float p = fast_exp2((s[n][i] - base[i / 2]) * softmax_scale_log2);
        sum[i / 2] += p;
        s[n][i] = fmaf(p, fast_tanh(t[n][i] * gate_half_scale), p);
      }
    }
  }
};

}  // namespace stratum::gated
