// Products of one warp's 32 rows: as fragments.h's, but every fragment of B serves two 16-row products of A.
#pragma once

#include "gated/portable/fragments.h"

namespace stratum::gated {

// 32 rows of an A operand.
template <class Tile, bool kHeld>
struct RowPair {
  RowOperand<Tile, kHeld> half[2];
  __device__ __forceinline__ RowPair(u32 rows, int lane)
      : half{RowOperand<Tile, kHeld>(rows, lane), RowOperand<Tile, kHeld>(rows + 16 * Tile::row_bytes, lane)} {}
  __device__ __forceinline__ void fragment(u32 (&a)[2][4], int k) const {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      if constexpr (kHeld) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[m][i] = half[m].held[k][i];
      } else {
        load_matrix_x4(a[m], half[m].address + k * 32);
      }
    }
  }
};

// c = A B^T for 32 rows of A: every fragment of B serves two products.
template <class Element, class BTile, class ATile, bool kHeld, class Beside = Nothing>
STRATUM_DEVICE void multiply_pair(float (&c)[2][BTile::rows / 8][4], const RowPair<ATile, kHeld>& rows, u32 b,
                                  const Beside& beside = {}) {
  constexpr int steps = BTile::columns / 16;
  clear(c[0]);
  clear(c[1]);
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    u32 a[2][4];
    rows.fragment(a, k);
#pragma unroll
    for (int n = 0; n < BTile::rows / 16; ++n) {
      u32 fragment[4];
      load_matrix_x4(fragment, b + k * 32 + n * 16 * BTile::row_bytes);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        Mma<Element>::accumulate(c[m][2 * n], a[m], fragment[0], fragment[1]);
        Mma<Element>::accumulate(c[m][2 * n + 1], a[m], fragment[2], fragment[3]);
      }
    }
    beside(k, steps);
  }
}

// c += A B for 32 rows of A in shared memory and kColumns of BTile's columns; `a` is this lane's LaneOffset::a address,
// `b` its LaneOffset::b_transposed address. `beside` is called once for 16 columns of each k-step.
template <class Element, class ATile, class BTile, int kColumns, class Beside = Nothing>
STRATUM_DEVICE void accumulate_pair(float (&c)[2][kColumns / 8][4], u32 a, u32 b, const Beside& beside = {}) {
  constexpr int steps = ATile::columns / 16;
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    u32 rows[2][4];
    load_matrix_x4(rows[0], a + k * 32);
    load_matrix_x4(rows[1], a + k * 32 + 16 * ATile::row_bytes);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      u32 fragment[4];
      load_matrix_x4_transposed(fragment, b + k * 16 * BTile::row_bytes + n * 32);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        Mma<Element>::accumulate(c[m][2 * n], rows[m], fragment[0], fragment[1]);
        Mma<Element>::accumulate(c[m][2 * n + 1], rows[m], fragment[2], fragment[3]);
      }
      beside(k * (kColumns / 16) + n, steps * (kColumns / 16));
    }
  }
}

}  // namespace stratum::gated
