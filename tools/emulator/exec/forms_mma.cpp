// D = A B + C on fragments: A 16 x 16, B 16 x 8, C and D 16 x 8 float32. The sum over k is the hardware's (exact_mma.h)
// or plain float32, k ascending: Options says which.
//
// A register row of A or B is an 8 x 8 matrix of 16-bit elements: of A the four quarters (rows 0-7 and 8-15 of columns
// 0-7, then of columns 8-15), of B the two halves of k, each column by column. Two register rows of C hold the even and
// the odd columns of eight rows.
#include "exec/exact_mma.h"
#include "exec/floats.h"
#include "exec/lanes.h"
#include "exec/plain_mma.h"
#include "exec/transpose.h"
#include "exec/trap.h"
#include "machine/options.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

template <auto to_float>
void multiply_plain(const uint16_t (&a)[4][64], const uint16_t* b, float (&sums)[2][64]) {
  alignas(32) float wide_a[4][64], wide_b[128];
  for (int i = 0; i < 4; ++i) widen<to_float>(a[i], 64, wide_a[i]);
  widen<to_float>(b, 128, wide_b);
  plain_multiply(wide_a, wide_b, sums);
}

template <class Format>
void multiply_exact(const uint16_t (&a)[4][64], const uint16_t* b, float (&sums)[2][64]) {
  uint16_t rows[16][16];
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k) rows[m][k] = a[m / 8 + k / 8 * 2][m % 8 * 8 + k % 8];
  exact_multiply<Format>(rows[0], b, reinterpret_cast<uint32_t*>(sums[0]));
}

template <class Format, auto to_float>
void multiply(Warp& warp, const Step& step, uint32_t lanes) {
  if (lanes != kAllLanes) trap_not_converged(warp, lanes, kAllLanes);
  uint16_t a[4][64], b[128];
  for (int i = 0; i < 4; ++i) std::memcpy(a[i], row<uint16_t>(warp, step.row[4 + i]), sizeof a[i]);
  for (int i = 0; i < 2; ++i) transpose_8x8(row<uint16_t>(warp, step.row[8 + i]), b + 64 * i);
  // All of C is read before anything of D is written: they may share registers in any order.
  alignas(32) float sums[2][64];
  for (int i = 0; i < 2; ++i) {
    interleave<32>(row<float>(warp, step.row[10 + 2 * i]), row<float>(warp, step.row[11 + 2 * i]), sums[i]);
  }
  if (warp.options->mma == Mma::Exact) {
    multiply_exact<Format>(a, b, sums);
  } else {
    multiply_plain<to_float>(a, b, sums);
  }
  for (int i = 0; i < 2; ++i) {
    float *even = row<float>(warp, step.row[2 * i]), *odd = row<float>(warp, step.row[2 * i + 1]);
    for (int j = 0; j < 32; ++j) {
      even[j] = canonical(sums[i][2 * j]);
      odd[j] = canonical(sums[i][2 * j + 1]);
    }
  }
}

const Form kForms[] = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "4w=4w2w4w",
     multiply<Bfloat16, [](uint32_t x) { return from_bfloat16(x); }>},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "4w=4w2w4w",
     multiply<Float16, [](uint32_t x) { return from_float16(x); }>},
};

}  // namespace

FormList mma_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
