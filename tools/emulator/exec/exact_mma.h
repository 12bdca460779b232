// D = A B + C as Hopper's tensor cores round it, to the bit. Only for the sources of row forms.
//
// Each element of D is one sum of 17 terms: the 16 products, which are exact, and the element of C. All are aligned to
// the term of the largest exponent, cut off below 2^-25 of it, added exactly, and the sum is cut off to a float. The
// exponent of a product is the sum of its factors', whether the product of the significands reaches 2 or not.
// (The model is that of X. Xie et al., MMA-Sim; that all 16 products are one sum was seen in an H200's results.)
#pragma once

#include "exec/floats.h"
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {

struct Bfloat16 {
  static constexpr int kFractionBits = 7, kBias = 127;
};
struct Float16 {
  static constexpr int kFractionBits = 10, kBias = 15;
};

inline constexpr int kSumFraction = 25;        // fraction bits that are kept of the largest term
inline constexpr int kExponentOfZero = -1000;  // below that of any number, and of any product

// A 16-bit float as significand * 2^(exponent - its fraction bits).
struct Factor {
  int32_t significand, exponent;
};

// kShift more bits of the significand, so that products have kSumFraction fraction bits.
template <class Format, int kShift>
[[gnu::always_inline]] inline Factor factor(uint32_t bits) {
  constexpr int kFraction = Format::kFractionBits;
  const int32_t field = static_cast<int32_t>(bits >> kFraction & ((1 << (15 - kFraction)) - 1));
  const int32_t fraction = static_cast<int32_t>(bits & ((1 << kFraction) - 1));
  const int32_t magnitude = (field ? fraction | 1 << kFraction : fraction) << kShift;
  const int32_t exponent = (field ? field : 1) - Format::kBias;
  return {bits & 0x8000 ? -magnitude : magnitude, magnitude ? exponent : kExponentOfZero};
}

template <class Format>
[[gnu::always_inline]] inline bool is_special(uint32_t bits) {
  constexpr uint32_t kMask = 0x7fff & ~((1u << Format::kFractionBits) - 1);
  return (bits & kMask) == kMask;
}

// A double cut off to a float, subnormals too.
[[gnu::always_inline]] inline uint32_t cut_bits(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023 + 127;
  const uint32_t fraction = static_cast<uint32_t>(bits >> 29) & 0x7fffff;
  const int below = exponent > 0 ? 0 : exponent < -30 ? 31 : 1 - exponent;
  const uint32_t subnormal = (fraction | 0x800000) >> below;
  const uint32_t normal = static_cast<uint32_t>(exponent) << 23 | fraction;
  const uint32_t magnitude = exponent <= 0 ? subnormal : exponent >= 255 ? 0x7f800000 : normal;
  return magnitude | static_cast<uint32_t>(bits >> 32 & 0x80000000);
}

// The result where a factor or c is infinite or NaN.
template <class Format>
inline uint32_t special_sum(const uint16_t* a, const uint16_t* b, size_t b_stride, uint32_t c, uint32_t finite) {
  constexpr uint32_t kInfinity = 0x7fff & ~((1u << Format::kFractionBits) - 1);
  bool nan = (c & 0x7fffffff) > 0x7f800000, infinite[2] = {c == 0x7f800000, c == 0xff800000};
  for (int k = 0; k < 16; ++k) {
    const uint32_t x = a[k], y = b[k * b_stride], largest = (x & 0x7fff) > (y & 0x7fff) ? x & 0x7fff : y & 0x7fff;
    if (largest < kInfinity) continue;
    nan |= largest > kInfinity || (x & 0x7fff) == 0 || (y & 0x7fff) == 0;
    infinite[(x ^ y) >> 15 & 1] = true;
  }
  if (nan || (infinite[0] && infinite[1])) return kNanBits;
  return infinite[0] ? 0x7f800000 : infinite[1] ? 0xff800000 : finite;
}

// Eight columns of a row.
using Integers = int32_t __attribute__((vector_size(32)));
using Words = uint32_t __attribute__((vector_size(32)));

// Vectors go by reference: functions that return them have another ABI on every machine.
[[gnu::always_inline]] inline void load(const void* from, Integers& to) { std::memcpy(&to, from, sizeof to); }

// Shifts numbers below 2^31 right, each by a number of bits that may be more than 31.
[[gnu::always_inline]] inline void shift_right(Integers& magnitude, const Integers& by) {
  const Integers bounded = by < 31 ? by : Integers{} + 31;
  magnitude = (Integers)((Words)magnitude >> (Words)bounded);
}

// a: 16 x 16, row by row. b: 16 x 8, row by row (of k). sums: C, then D, 16 x 8.
template <class Format>
void exact_multiply(const uint16_t* a, const uint16_t* b, uint32_t* sums) {
  constexpr int kShift = kSumFraction - 2 * Format::kFractionBits, kShiftA = kShift / 2, kShiftB = kShift - kShiftA;
  int32_t a_significand[256], a_exponent[256], b_significand[128], b_exponent[128];
  uint32_t special = 0;
  for (int i = 0; i < 256; ++i) {
    const Factor one = factor<Format, kShiftA>(a[i]);
    a_significand[i] = one.significand;
    a_exponent[i] = one.exponent;
    special |= is_special<Format>(a[i]);
  }
  for (int i = 0; i < 128; ++i) {
    const Factor one = factor<Format, kShiftB>(b[i]);
    b_significand[i] = one.significand;
    b_exponent[i] = one.exponent;
    special |= is_special<Format>(b[i]) | ((sums[i] & 0x7f800000) == 0x7f800000);
  }
  for (int m = 0; m < 16; ++m) {
    Integers c, of_b;
    load(sums + 8 * m, c);
    const Integers field = c >> 23 & 0xff;
    const Integers leading = field > 0 ? Integers{} + 0x800000 : Integers{};
    Integers aligned = ((c & 0x7fffff) | leading) << (kSumFraction - 23);
    const Integers exponent = (field > 1 ? field : Integers{} + 1) - 127;
    const Integers of_c = aligned > 0 ? exponent : Integers{} + kExponentOfZero / 2;
    Integers top = of_c;
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) {
      load(b_exponent + 8 * k, of_b);
      of_b += a_exponent[16 * m + k];
      top = top > of_b ? top : of_b;
    }
    Integers products = {};  // each is below 2^27, so that 16 of them fit
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) {
      Integers product;
      load(b_significand + 8 * k, product);
      product *= a_significand[16 * m + k];
      const Integers sign = product >> 31;
      load(b_exponent + 8 * k, of_b);
      product = (product ^ sign) - sign;
      shift_right(product, top - a_exponent[16 * m + k] - of_b);
      products += (product ^ sign) - sign;
    }
    shift_right(aligned, top - of_c);
    const Integers c_sign = c >> 31;
    aligned = (aligned ^ c_sign) - c_sign;
    uint32_t finite[8];
    for (int n = 0; n < 8; ++n) {
      const uint64_t unit = static_cast<uint64_t>(top[n] - kSumFraction + 1023) << 52;
      const double sum = static_cast<double>(products[n]) + aligned[n];
      finite[n] = cut_bits(sum * __builtin_bit_cast(double, unit));
    }
    for (int n = 0; special && n < 8; ++n) {
      finite[n] = special_sum<Format>(a + 16 * m, b + n, 8, sums[8 * m + n], finite[n]);
    }
    std::memcpy(sums + 8 * m, finite, sizeof finite);
  }
}

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
