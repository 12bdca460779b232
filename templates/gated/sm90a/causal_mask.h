// The causal mask on tiles of scores in wgmma's layout, queries by keys.
#pragma once

#include "device/math.h"

namespace stratum::gated::sm90a {

// Whether the causal mask hides element i of a thread's accumulator, whose element 0 is key `first_key`, query row
// `row`.
STRATUM_DEVICE bool hidden(int i, int first_key, int row) {
  return 8 * (i / 4) + i % 2 > row - first_key + i % 4 / 2 * 8;
}

template <int kCount>
STRATUM_DEVICE void mask_scores(float (&s)[kCount], int first_key, int row) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (hidden(i, first_key, row)) s[i] = -kInfinity;
  }
}

// For the tile at the end of a sequence, behind which rows are zeros: infinity times 0 is NaN, and so is 0 times a gate
// of that.
template <int kCount>
STRATUM_DEVICE void mask_gate_scores(float (&half_t)[kCount], int first_key, int row) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (hidden(i, first_key, row)) half_t[i] = 0.f;
  }
}

}  // namespace stratum::gated::sm90a
