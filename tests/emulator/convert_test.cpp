#include <catch2/catch.hpp>
#include <cmath>

#include "support.h"

namespace stratum::emulator {
namespace {

using A = Arguments;

// To a format of `digits` binary digits whose smallest normal number is 2^smallest and whose largest exponent is
// `largest`, to the nearest, ties to even; the bits are found by dividing.
uint64_t rounded_bits(float x, int digits, int smallest, int largest) {
  const int fraction = digits - 1;
  const int exponent_bits = 15 - fraction;
  if (std::isnan(x)) return 0x7fff;
  const uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::abs(static_cast<double>(x));
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << fraction;
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;
  const int exponent = std::max(std::ilogb(magnitude), smallest);
  const double units = std::nearbyint(std::ldexp(magnitude, fraction - exponent));
  if (std::ldexp(units, exponent - fraction) >= std::ldexp(1.0, largest + 1)) return sign | infinity;
  // A significand that was rounded up to the next power of two carries into the exponent.
  return sign | (static_cast<uint64_t>(exponent - smallest) * (uint64_t{1} << fraction) + static_cast<uint64_t>(units));
}

uint64_t bfloat16_bits(uint64_t x) { return rounded_bits(as_float(x), 8, -126, 127); }
uint64_t float16_bits(uint64_t x) { return rounded_bits(as_float(x), 11, -14, 15); }

}  // namespace

TEST_CASE("integers are widened by their sign and cut") {
  const auto values = integers();
  check_instruction("cvt.s64.s32 %e, %a0;", values, [](const A& a) { return uint64_t(int64_t(int32_t(a[0]))); });
  check_instruction("cvt.s64.s32 %e, %w0;", values, [](const A& a) { return uint64_t(int64_t(int32_t(a[0]))); });
  check_instruction("cvt.u64.u32 %e, %a0;", values, [](const A& a) { return a[0] & 0xffffffff; });
  check_instruction("cvt.u32.u64 %d, %w0;", values, [](const A& a) { return a[0] & 0xffffffff; });
  check_instruction("cvta.to.global.u64 %e, %w0;", values, [](const A& a) { return a[0]; });
}

TEST_CASE("pairs of floats are packed with the first in the upper half") {
  const auto values = floats(20000);
  check_instruction("cvt.rn.bf16x2.f32 %d, %a0, %a1;", values,
                    [](const A& a) { return bfloat16_bits(a[0]) << 16 | bfloat16_bits(a[1]); });
  check_instruction("cvt.rn.f16x2.f32 %d, %a0, %a1;", values,
                    [](const A& a) { return float16_bits(a[0]) << 16 | float16_bits(a[1]); });
  // Floats in the range of subnormal float16 numbers, and halfway between float16 numbers.
  std::vector<A> edges;
  for (uint32_t i = 0; i < 4000; ++i) edges.push_back({0x33000000 + i * 0x5432, 0xb8000000 + i * 0x1000, 0, 0});
  check_instruction("cvt.rn.f16x2.f32 %d, %a0, %a1;", edges,
                    [](const A& a) { return float16_bits(a[0]) << 16 | float16_bits(a[1]); });
}

TEST_CASE("every float16 has its float") {
  const auto value = [](uint64_t bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 0x3ff);
    const double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    return result_bits(static_cast<float>(bits & 0x8000 ? -magnitude : magnitude));
  };
  const std::string half =
      "mul.wide.u32 %rd0, %tid, 4; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 128;\n"
      "add.s64 %rd0, %rd0, %rd1; add.s64 %rd1, %in, %rd0; ld.global.u32 %r1, [%rd1];\n"
      "mov.b32 {%h0, %h1}, %r1; cvt.f32.f16 %f0, ";
  std::vector<uint32_t> in;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) in.push_back(bits << 16 | (bits ^ 0x8000));
  for (const bool high : {false, true}) {
    const auto out = run_body(half + (high ? "%h1" : "%h0") + "; add.s64 %rd1, %out, %rd0; st.global.f32 [%rd1], %f0;",
                              in, in.size(), {.blocks = 0x10000 / 32});
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      CAPTURE(bits, high);
      REQUIRE(out[bits] == value(high ? bits : bits ^ 0x8000));
    }
  }
}

TEST_CASE("halves are put together as they are taken apart") {
  const auto in = random_words(32);
  const auto out = run_body(
      "mul.wide.u32 %rd0, %tid, 4; add.s64 %rd1, %in, %rd0; ld.global.u32 %r1, [%rd1];\n"
      "mov.b32 {%h0, %h1}, %r1; mov.b32 %r2, {%h1, %h0};\n"
      "add.s64 %rd1, %out, %rd0; st.global.u32 [%rd1], %r2;",
      in, 32);
  for (size_t i = 0; i < 32; ++i) CHECK(out[i] == (in[i] << 16 | in[i] >> 16));
}

}  // namespace stratum::emulator
