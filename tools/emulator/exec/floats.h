// Bits of floats. Only for the sources of row forms. Always inlined: loops over these functions become vector code.
#pragma once

#include <cstdint>

namespace stratum::emulator::STRATUM_EMULATOR_ISA {

[[gnu::always_inline]] inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
[[gnu::always_inline]] inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline constexpr uint32_t kNanBits = 0x7fffffff;  // the one NaN that arithmetic gives

[[gnu::always_inline]] inline float canonical(float x) { return x == x ? x : float_of(kNanBits); }

[[gnu::always_inline]] inline float from_bfloat16(uint32_t bits) { return float_of(bits << 16); }

// To the nearest, ties to even.
[[gnu::always_inline]] inline uint32_t to_bfloat16(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return x == x ? rounded : 0x7fff;
}

[[gnu::always_inline]] inline float from_float16(uint32_t half) {
  constexpr uint32_t kBias = (127 - 15) << 23;
  const uint32_t exponent = half & 0x7c00;
  uint32_t bits = ((half & 0x7fff) << 13) + kBias;
  bits += exponent == 0x7c00 ? kBias : 0;  // infinities and NaN keep the largest exponent
  // Zero and subnormals: 2^-14 is added as the leading one and taken away again.
  const float tiny = float_of(bits + (1 << 23)) - float_of(kBias + (1 << 23));
  const uint32_t magnitude = exponent == 0 ? bits_of(tiny) : bits;
  return float_of(magnitude | (half & 0x8000) << 16);
}

// To the nearest, ties to even.
[[gnu::always_inline]] inline uint32_t to_float16(float x) {
  constexpr uint32_t kTooLarge = (127 + 16) << 23;      // 2^16
  constexpr uint32_t kSmallest = (127 - 14) << 23;      // 2^-14, the smallest normal float16
  constexpr uint32_t kAligner = (127 - 14 + 13) << 23;  // its last bit is worth 2^-24, as a subnormal float16's
  const uint32_t sign = bits_of(x) >> 16 & 0x8000;
  const uint32_t bits = bits_of(x) & 0x7fffffff;
  const uint32_t normal = (bits - ((127 - 15) << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  const uint32_t subnormal = bits_of(float_of(bits) + float_of(kAligner)) - kAligner;
  uint32_t half = bits < kSmallest ? subnormal : normal;
  half = bits >= kTooLarge ? 0x7c00 : half;
  return x == x ? half | sign : 0x7fff;
}

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
