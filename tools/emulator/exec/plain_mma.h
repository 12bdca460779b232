// D = A B + C in float32, k ascending. Only for the sources of row forms.
//
// A is 16 x 16: the four quarters of it (rows 0-7 and 8-15 of columns 0-7, then of columns 8-15), each row by row. B is
// 16 x 8, row by row of k.
#pragma once

#include <cstdint>
#include <cstring>
#ifdef __FMA__
#include <immintrin.h>
#endif

namespace stratum::emulator::STRATUM_EMULATOR_ISA {

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

// sums: C, then D, 16 x 8.
[[gnu::always_inline]] inline void plain_multiply(const float (*a)[64], const float* b, float (&sums)[2][64]) {
  multiply_half<0>(a, b, sums[0]);
  multiply_half<1>(a, b, sums[1]);
}

template <auto to_float>
[[gnu::always_inline]] inline void widen(const uint16_t* from, int count, float* to) {
  for (int i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
