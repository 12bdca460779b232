// What both backward kernels do to a pair (query i, key j). With p the softmax, g the sigmoid, w = p g and dw = do.v:
//
//     ds = w dw - p delta        dt = w dw (1 - g)
//
// Forward's identity w = (p + p tanh(t/2)) / 2 serves again: no special function beyond exp2 and tanh. Powers of two
// stay out of the loop: the kernels carry 2w, 2ds and 4dt, and the epilogues scale by 1/2, 1/2 and 1/4.
#pragma once

#include "abi/gated.h"
#include "device/copy_tile.h"
#include "device/math.h"
#include "gated/portable/dense.h"
#include "gated/portable/fragments.h"

namespace stratum::gated {

// A pair's arithmetic in stages, so that kernels can place each beside products that don't need it. A hidden pair has
// s = -inf and gate score 0, which make every result zero; its own gate score may be NaN, of an infinity times the
// zeros behind the sequence's end, and 0 times NaN is no 0.
STRATUM_DEVICE float pair_probability(float s, const abi::RowStats& row, const Scales& scales) {
  return fast_exp2(fmaf(s - row.max, scales.softmax_log2, -row.log2_sum));
}

// Turns (p, tanh(t/2)) into (2 ds, 4 dt).
STRATUM_DEVICE void pair_gradients(float& p, float& tanh_half, float dw, float twice_delta) {
  const float wdw2 = fmaf(p, tanh_half, p) * dw;
  p = fmaf(-p, twice_delta, wdw2);
  tanh_half = fmaf(-wdw2, tanh_half, wdw2);
}

}  // namespace stratum::gated
