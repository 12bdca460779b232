// ex2, lg2, rcp, sqrt, rsqrt and tanh as the hardware approximates them, to the bit. Only for the sources of row forms.
//
// The hardware interpolates: upper bits of the argument choose a segment, the 17 bits below them are t, and the result
// is c0 + c1 t + c2 t², cut off. t² comes from a squarer without its lower 19 columns. The tables and how they were
// found: tools/emulator/conformance/tables.py. Here the sum is formed in doubles, in which it is exact.
#pragma once

#include "exec/floats.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {

struct Segment {
  double c0, c1, c2;
};

#include "exec/approximation_tables.inc"

inline constexpr int kSquareBits = 17;

// t² / 2^19: the products of bits i and j of t that lie in column 19 or above.
[[gnu::always_inline]] inline uint32_t truncated_square(uint32_t t) {
  uint32_t total = 0;
#pragma GCC unroll 17
  for (int i = 2; i < kSquareBits; ++i) {
    // Bits above i, each of which meets i twice, from the first that reaches column 19; then bit i itself.
    const int first = i + 1 > 18 - i ? i + 1 : 18 - i;
    uint32_t products = t >> first << (first + i - 18);
    if (2 * i >= 19) products |= 1u << (2 * i - 19);
    total += t >> i & 1 ? products : 0;
  }
  return total;
}

[[gnu::always_inline]] inline double interpolate(const Segment& segment, uint32_t t) {
  const double linear = segment.c0 + segment.c1 * static_cast<int32_t>(t);
  return linear + segment.c2 * static_cast<int32_t>(truncated_square(t));
}

// 2^exponent for exponents of normal doubles.
[[gnu::always_inline]] inline double power_of_two(int exponent) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(exponent + 1023) << 52);
}

// A positive double cut off to a float. Subnormals become 0, what is too large infinity.
[[gnu::always_inline]] inline float cut(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const int exponent = static_cast<int>(bits >> 52) - 1023 + 127;
  const uint32_t number = static_cast<uint32_t>(exponent) << 23 | (static_cast<uint32_t>(bits >> 29) & 0x7fffff);
  return float_of(exponent <= 0 ? 0 : exponent >= 255 ? 0x7f800000 : number);
}

[[gnu::always_inline]] inline uint32_t fraction_of(float x) { return bits_of(x) & 0x7fffff; }
[[gnu::always_inline]] inline int exponent_of(float x) { return static_cast<int>(bits_of(x) >> 23 & 0xff) - 127; }
[[gnu::always_inline]] inline float magnitude_of(float x) { return float_of(bits_of(x) & 0x7fffffff); }
[[gnu::always_inline]] inline float with_sign_of(float x, float from) {
  return float_of(bits_of(x) | (bits_of(from) & 0x80000000));
}

// Subnormals are 0, with their sign.
[[gnu::always_inline]] inline float flushed(float x) {
  return (bits_of(x) & 0x7f800000) == 0 ? float_of(bits_of(x) & 0x80000000) : x;
}

// 2^x. x is taken as a fixed-point number with 23 fraction bits, cut off; a negative one as the complement of its bits.
[[gnu::always_inline]] inline float exp2_approximate(float x) {
  const float magnitude = magnitude_of(x);
  const float bounded = magnitude < 255 ? magnitude : 255;  // also for NaN
  const int32_t fixed = static_cast<int32_t>(static_cast<double>(bounded) * 8388608);
  const int32_t negative = (fixed & 0x7fffff) != 0 ? ~fixed : -fixed;
  const int32_t signed_fixed = x < 0 ? negative : fixed;
  const uint32_t fraction = static_cast<uint32_t>(signed_fixed) & 0x7fffff;
  const double power = interpolate(kExp2[fraction >> kSquareBits], fraction & 0x1ffff);
  const float result = cut(power * power_of_two((signed_fixed >> 23) - 38));
  return x == x ? result : float_of(kNanBits);
}

// log2(x) of a number that is not subnormal. The logarithm of the fraction is added to the exponent in fixed point; a
// negative sum has its bits complemented. Multiples of 2^-36 are left.
[[gnu::always_inline]] inline float log2_approximate(float x) {
  const uint32_t fraction = fraction_of(x);
  const double fixed = interpolate(kLog2[fraction >> kSquareBits], fraction & 0x1ffff);
  const int64_t sum = (int64_t{exponent_of(x)} << 38) + static_cast<int64_t>(fixed);
  const int64_t magnitude = (sum < 0 ? ~sum : sum) & ~int64_t{3};
  const float logarithm = x == 1 ? 0 : cut(static_cast<double>(magnitude) * power_of_two(-38));
  const float edge = x == 0 ? -__builtin_inff() : x > 0 ? x : float_of(kNanBits);
  return x > 0 && x < __builtin_inff() ? sum < 0 ? -logarithm : logarithm : edge;
}

// 1/x of a number that is not subnormal; a subnormal result is 0.
[[gnu::always_inline]] inline float reciprocal_approximate(float x) {
  const uint32_t fraction = fraction_of(x);
  const double one = interpolate(kReciprocal[fraction >> 16], (fraction & 0xffff) << 1);
  const float result = cut(one * power_of_two(-exponent_of(x) - 40));
  const float magnitude = magnitude_of(x);
  const float edge = magnitude == 0 ? __builtin_inff() : magnitude == __builtin_inff() ? 0 : result;
  return x == x ? with_sign_of(edge, x) : float_of(kNanBits);
}

enum class Root { Plain, Reciprocal };

// √x or 1/√x of a number that is not subnormal.
template <Root root>
[[gnu::always_inline]] inline float root_approximate(float x) {
  const uint32_t fraction = fraction_of(x);
  const uint32_t odd = bits_of(x) >> 23 & 1 ? 0 : 1;  // of the exponent without its bias
  const int half = (exponent_of(x) - static_cast<int>(odd)) / 2;
  const uint32_t segment = odd << 6 | fraction >> kSquareBits;
  const uint32_t t = fraction & 0x1ffff;
  float result;
  if constexpr (root == Root::Plain) {
    result = cut(interpolate(kRoot[segment], t) * power_of_two(half - 40));
  } else {
    const double number = interpolate(kReciprocalRoot[segment], t);
    result = cut((odd == 0 && fraction == 0 ? power_of_two(40) : number) * power_of_two(-half - 40));
  }
  const float infinity = __builtin_inff();
  const float of_zero = root == Root::Plain ? x : with_sign_of(infinity, x);
  const float of_infinity = root == Root::Plain ? infinity : 0;
  const float edge = x == 0 ? of_zero : x == infinity ? of_infinity : float_of(kNanBits);
  return x > 0 && x < infinity ? result : edge;
}

// tanh(x): x itself below 2^-8, 1 from 8 on. Each power of two between has segments of its own.
[[gnu::always_inline]] inline float tanh_approximate(float x) {
  struct Binade {
    uint32_t first, ignored;  // segment; lower bits of x that don't matter
  };
  constexpr Binade kBinades[] = {{0, 6},  {1, 6},  {2, 6},  {3, 5},  {5, 5}, {7, 4},
                                 {11, 4}, {15, 4}, {19, 3}, {27, 2}, {43, 3}};
  const float magnitude = magnitude_of(x);
  const float bounded = magnitude >= 0.00390625f && magnitude < 8 ? magnitude : 0.00390625f;
  const Binade binade = kBinades[exponent_of(bounded) + 8];
  const uint32_t place = fraction_of(bounded) >> binade.ignored;
  const double number = interpolate(kTanh[binade.first + (place >> kSquareBits)], place & 0x1ffff);
  const float between = cut(number * power_of_two(-46));
  const float result = magnitude < 0.00390625f ? magnitude : magnitude < 8 ? between : 1;
  return x == x ? with_sign_of(result, x) : float_of(kNanBits);
}

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
