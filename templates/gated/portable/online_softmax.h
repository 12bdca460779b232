// Softmax over keys that are taken in parts: tile by tile by the online rule, and parts joined in a fixed order.
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

struct Scales {
  float softmax_log2;  // log2(e) / sqrt(D)
  float gate_half;     // 0.5 / sqrt(R)
};

// The softmax state of an MMA thread's two rows, r and r + 8 of sixteen.
struct OnlineSoftmax {
  float max[2] = {-kInfinity, -kInfinity};
  float base[2] = {0.f, 0.f};  // what scores are reduced by: subtrahend(max)
  float sum[2] = {0.f, 0.f};   // over this thread's columns; quad_sum makes it the row's

  // Takes in the scores of 8 * kTiles keys; gives the factors by which the sum (done here) and the two rows' outputs so
  // far are to be rescaled.
  template <int kTiles>
  __device__ __forceinline__ void raise(float (&rescale)[2], const float (&s)[kTiles][4], const Scales& scales) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = max[r];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) largest = fmaxf(largest, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
      largest = quad_max(largest);
      rescale[r] = part_factor(max[r], largest, scales.softmax_log2);
      base[r] = subtrahend(largest);
      max[r] = largest;
      sum[r] *= rescale[r];
    }
  }

  // Turns 8 columns of scores s, with tanh of half the gate scores, into twice the gated weights, 2 p sigmoid(t).
  __device__ __forceinline__ void weigh(float (&s)[4], const float (&tanh_half)[4], const Scales& scales) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float p = fast_exp2((s[i] - base[i / 2]) * scales.softmax_log2);
      sum[i / 2] += p;
      s[i] = fmaf(p, tanh_half[i], p);
    }
  }
};

}  // namespace stratum::gated
