// Products of one warp's 16 rows with a tile in shared memory, the only matrix arithmetic of the portable family.
//
// `Steps` is a product's k extent in steps of 16, `Tiles` its n extent in 16-column pairs of MMA tiles.
#pragma once

#include "device/mma.h"
#include "device/shared_tile.h"

namespace stratum::gated {

template <int kColumns>
STRATUM_DEVICE void clear(float (&c)[kColumns][4]) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) c[n][i] = 0.f;
  }
}

// A product's steps leave most issue slots of a warp free while the tensor core works. `beside` fills them: it is
// called once a step with (step, number of steps), both compile-time constants after unrolling, to do a share of other
// work.
struct Nothing {
  __device__ __forceinline__ void operator()(int, int) const {}
};

// Calls work(i) for the share of 0 ... kTotal - 1 that falls to step `step` of `steps`.
template <int kTotal, class Work>
STRATUM_DEVICE void share(int step, int steps, const Work& work) {
#pragma unroll
  for (int i = 0; i < kTotal; ++i) {
    if (i * steps >= kTotal * step && i * steps < kTotal * (step + 1)) work(i);
  }
}

// c += A B^T for one k-step: B's tile is stored [n][k], `b` is this lane's LaneOffset::b address at the k-step's
// column.
template <class Element, class BTile>
STRATUM_DEVICE void multiply_step(float (&c)[BTile::rows / 8][4], const u32 (&a)[4], u32 b) {
#pragma unroll
  for (int n = 0; n < BTile::rows / 16; ++n) {
    u32 fragment[4];
    load_matrix_x4(fragment, b + n * 16 * BTile::row_bytes);
    Mma<Element>::accumulate(c[2 * n], a, fragment[0], fragment[1]);
    Mma<Element>::accumulate(c[2 * n + 1], a, fragment[2], fragment[3]);
  }
}

// A warp's 16 rows of an A operand, stored [m][k] in shared memory: read anew at every use, or held in registers.
template <class Tile, bool kHeld>
struct RowOperand {
  static constexpr int steps = Tile::columns / 16;
  u32 address;
  u32 held[kHeld ? steps : 1][4];

  // `rows` is the address of the warp's first row, whose contents must have landed if they are to be held.
  __device__ __forceinline__ RowOperand(u32 rows, int lane) : address(rows + LaneOffset<Tile>::a(lane)) {
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < steps; ++k) load_matrix_x4(held[k], address + k * 32);
    }
  }
};

// c = A B^T with A's fragments in registers, B's tile stored [n][k]; `b` is this lane's LaneOffset::b address.
template <class Element, class BTile, class Beside = Nothing>
STRATUM_DEVICE void multiply_registers(float (&c)[BTile::rows / 8][4], const u32 (&a)[BTile::columns / 16][4], u32 b,
                                       const Beside& beside = {}) {
  constexpr int steps = BTile::columns / 16;
  clear(c);
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    multiply_step<Element, BTile>(c, a[k], b + k * 32);
    beside(k, steps);
  }
}

// The same with A wherever its RowOperand keeps it.
template <class Element, class BTile, class ATile, bool kHeld, class Beside = Nothing>
STRATUM_DEVICE void multiply(float (&c)[BTile::rows / 8][4], const RowOperand<ATile, kHeld>& a, u32 b,
                             const Beside& beside = {}) {
  static_assert(ATile::columns == BTile::columns, "the operands share k");
  if constexpr (kHeld) {
    multiply_registers<Element, BTile>(c, a.held, b, beside);
  } else {
    clear(c);
#pragma unroll
    for (int k = 0; k < a.steps; ++k) {
      u32 fragment[4];
      load_matrix_x4(fragment, a.address + k * 32);
      multiply_step<Element, BTile>(c, fragment, b + k * 32);
      beside(k, a.steps);
    }
  }
}

// c += A B for k-step `k` (16 rows of B), A in registers, B stored [k][n]; `b` is this lane's LaneOffset::b_transposed
// address.
template <class Element, class BTile, class Beside = Nothing>
STRATUM_DEVICE void accumulate_step(float (&c)[BTile::columns / 8][4], const u32 (&a)[4], u32 b, int k,
                                    const Beside& beside = {}) {
  constexpr int steps = BTile::columns / 16;
#pragma unroll
  for (int n = 0; n < steps; ++n) {
    u32 fragment[4];
    load_matrix_x4_transposed(fragment, b + k * 16 * BTile::row_bytes + n * 32);
    Mma<Element>::accumulate(c[2 * n], a, fragment[0], fragment[1]);
    Mma<Element>::accumulate(c[2 * n + 1], a, fragment[2], fragment[3]);
    beside(n, steps);
  }
}

// c += A B over all of B's rows.
template <class Element, class BTile>
STRATUM_DEVICE void accumulate_rows(float (&c)[BTile::columns / 8][4], const u32 (&a)[BTile::rows / 16][4], u32 b) {
#pragma unroll
  for (int k = 0; k < BTile::rows / 16; ++k) accumulate_step<Element, BTile>(c, a[k], b, k);
}

// Packs one 8-column accumulator tile into its half of an A fragment: tile n of the accumulator is columns 8n ... of A.
template <class Element, int kSteps>
STRATUM_DEVICE void pack_operand(u32 (&a)[kSteps][4], int n, const float (&c)[4]) {
  a[n / 2][(n % 2) * 2] = Element::pack(c[0], c[1]);
  a[n / 2][(n % 2) * 2 + 1] = Element::pack(c[2], c[3]);
}

}  // namespace stratum::gated
