// D = A B + C on fragments: A 16 x 16, B 16 x 8, C and D 16 x 8 float32. The sum over k is the hardware's (exact_mma.h)
// or plain float32, k ascending: Options says which.
//
// A register row of A or B is an 8 x 8 matrix of 16-bit elements: of A the four quarters (rows 0-7 and 8-15 of columns
// 0-7, then of columns 8-15), of B the two halves of k, each column by column. Two register rows of C hold the even and
// the odd columns of eight rows.
#include "exec/exact_mma.h"
#include "exec/floats.h"
#include "exec/lanes.h"
#include "exec/transpose.h"
#include "exec/trap.h"
#include "machine/options.h"
#ifdef __FMA__
#include <immintrin.h>
#endif

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

// Eight columns of a row.
#ifdef __FMA__
using Columns = __m256;
#else
using Columns = float __attribute__((vector_size(32)));
#endif

// c += a b. The product of two 16-bit floats is a float32 (but for bfloat16 products outside the range of one), so it
// doesn't matter whether it is rounded before the sum.
[[gnu::always_inline]] inline void add_product(Columns& c, float a, const Columns& b) {
#ifdef __FMA__
  c = _mm256_fmadd_ps(_mm256_set1_ps(a), b, c);
#else
  c += a * b;
#endif
}

// sums (8 x 8) += kHalf's rows of A times B.
template <int kHalf>
[[gnu::always_inline]] inline void multiply_half(const float (*a)[64], const float* b, float* sums) {
  Columns c[8];
  std::memcpy(c, sums, sizeof c);
  for (int k = 0; k < 16; ++k) {
    Columns columns;
    std::memcpy(&columns, b + 8 * k, sizeof columns);
    const float* quarter = a[kHalf + k / 8 * 2] + k % 8;
#pragma GCC unroll 8
    for (int m = 0; m < 8; ++m) add_product(c[m], quarter[8 * m], columns);
  }
  std::memcpy(sums, c, sizeof c);
}

template <auto to_float>
void multiply_plain(const uint16_t (&a)[4][64], const uint16_t* b, float (&sums)[2][64]) {
  alignas(32) float wide_a[4][64], wide_b[128];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 64; ++j) wide_a[i][j] = to_float(a[i][j]);
  for (int j = 0; j < 128; ++j) wide_b[j] = to_float(b[j]);
  multiply_half<0>(wide_a, wide_b, sums[0]);
  multiply_half<1>(wide_a, wide_b, sums[1]);
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
