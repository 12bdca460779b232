#include <catch2/catch.hpp>
#include <cmath>

#include "support.h"

namespace stratum::emulator {
namespace {

using A = Arguments;

float at(const A& a, int i) { return as_float(a[static_cast<size_t>(i)]); }

// Runs an approximate form and gives the largest error of it, as `error` tells it from argument and result.
double largest_error(const std::string& instruction, const std::vector<float>& x,
                     const std::function<double(double, double)>& error) {
  std::vector<uint32_t> in;
  for (const float one : x) in.push_back(std::bit_cast<uint32_t>(one));
  const auto out = run_body(
      "mul.wide.u32 %rd0, %tid, 4; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 128; add.s64 %rd0, %rd0, %rd1;\n"
      "add.s64 %rd1, %in, %rd0; ld.global.f32 %f0, [%rd1];\n" +
          instruction + "\nadd.s64 %rd1, %out, %rd0; st.global.f32 [%rd1], %f1;",
      in, in.size(), {.blocks = static_cast<uint32_t>(in.size() / 32)});
  double largest = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    CAPTURE(instruction, x[i], as_float(out[i]));
    const double found = error(x[i], as_float(out[i]));
    REQUIRE(found == found);
    largest = std::max(largest, found);
  }
  return largest;
}

std::vector<float> range(float from, float to, size_t count = 32 * 2000) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) {
    x[i] = from + (to - from) * static_cast<float>(i) / static_cast<float>(count - 1);
  }
  return x;
}

}  // namespace

TEST_CASE("float arithmetic rounds to the nearest and has one NaN") {
  const auto values = floats(4000);
  check_instruction("add.rn.f32 %d, %a0, %a1;", values, [](const A& a) { return result_bits(at(a, 0) + at(a, 1)); });
  check_instruction("sub.rn.f32 %d, %a0, %a1;", values, [](const A& a) { return result_bits(at(a, 0) - at(a, 1)); });
  check_instruction("mul.rn.f32 %d, %a0, %a1;", values, [](const A& a) { return result_bits(at(a, 0) * at(a, 1)); });
  check_instruction("div.rn.f32 %d, %a0, %a1;", values, [](const A& a) { return result_bits(at(a, 0) / at(a, 1)); });
  check_instruction("fma.rn.f32 %d, %a0, %a1, %a2;", values,
                    [](const A& a) { return result_bits(std::fma(at(a, 0), at(a, 1), at(a, 2))); });
}

TEST_CASE("max and min prefer a number to NaN and tell zeros apart") {
  const auto values = floats(4000);
  const auto larger = [](float x, float y) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) ? y : x;
    return x == y ? (std::signbit(x) ? y : x) : std::max(x, y);
  };
  check_instruction("max.f32 %d, %a0, %a1;", values,
                    [&](const A& a) { return result_bits(larger(at(a, 0), at(a, 1))); });
  check_instruction("min.f32 %d, %a0, %a1;", values, [&](const A& a) {
    return result_bits(std::isnan(at(a, 0)) && std::isnan(at(a, 1)) ? NAN : -larger(-at(a, 0), -at(a, 1)));
  });
}

TEST_CASE("neg and abs change the sign bit alone, but for NaN") {
  check_instruction("neg.f32 %d, %a0;", floats(), [](const A& a) { return result_bits(-at(a, 0)); });
  check_instruction("abs.f32 %d, %a0;", floats(), [](const A& a) { return result_bits(std::abs(at(a, 0))); });
}

TEST_CASE("ex2 is near 2^x and flushes subnormals") {
  const auto error = [](double x, double y) {
    const double exact = std::exp2(x);
    if (exact < std::ldexp(1.0, -126) * (1 - 1e-6)) return y == 0 ? 0.0 : 1.0;
    if (exact >= std::ldexp(1.0, 128)) return std::isinf(y) ? 0.0 : 1.0;
    return std::abs(y - exact) / exact;
  };
  CHECK(largest_error("ex2.approx.ftz.f32 %f1, %f0;", range(-126, 127.9f), error) < std::ldexp(1.0, -22));
  CHECK(largest_error("ex2.approx.ftz.f32 %f1, %f0;", range(-1, 1), error) < std::ldexp(1.0, -22));
  CHECK(largest_error("ex2.approx.ftz.f32 %f1, %f0;", range(-1000, 1000), error) < std::ldexp(1.0, -22));
  const std::vector<std::pair<uint32_t, uint32_t>> exact = {
      {0, 0x3f800000},          {0x80000000, 0x3f800000}, {0x7f800000, 0x7f800000}, {0xff800000, 0},
      {0x7fc00000, 0x7fffffff}, {0x00000001, 0x3f800000}, {0x40400000, 0x41000000}, {0xc2fc0000, 0x00800000}};
  for (const auto& [x, y] : exact) {
    check_instruction("ex2.approx.ftz.f32 %d, %a0;", std::vector<A>(40, A{x, 0, 0, 0}),
                      [y = y](const A&) { return y; });
  }
}

TEST_CASE("tanh is within the hardware's error") {
  const auto error = [](double x, double y) {
    return x == 0 ? std::abs(y) : std::abs(y - std::tanh(x)) / std::abs(std::tanh(x));
  };
  CHECK(largest_error("tanh.approx.f32 %f1, %f0;", range(-12, 12), error) < 2e-5);
  CHECK(largest_error("tanh.approx.f32 %f1, %f0;", range(-1e-3f, 1e-3f), error) < 2e-5);
  const std::vector<std::pair<uint32_t, uint32_t>> exact = {
      {0, 0}, {0x80000000, 0x80000000}, {0x7f800000, 0x3f800000}, {0xff800000, 0xbf800000}, {0x7fc00000, 0x7fffffff}};
  for (const auto& [x, y] : exact) {
    check_instruction("tanh.approx.f32 %d, %a0;", std::vector<A>(40, A{x, 0, 0, 0}), [y = y](const A&) { return y; });
  }
}

TEST_CASE("lg2 is near log2 and takes subnormals for zero") {
  const auto error = [](double x, double y) { return std::abs(y - std::log2(x)); };
  CHECK(largest_error("lg2.approx.ftz.f32 %f1, %f0;", range(0.001f, 4), error) < 1e-6);
  const std::vector<std::pair<uint32_t, uint32_t>> exact = {{0, 0xff800000},          {0x00000001, 0xff800000},
                                                            {0x3f800000, 0},          {0x7f800000, 0x7f800000},
                                                            {0xbf800000, 0x7fffffff}, {0x7fc00000, 0x7fffffff}};
  for (const auto& [x, y] : exact) {
    check_instruction("lg2.approx.ftz.f32 %d, %a0;", std::vector<A>(40, A{x, 0, 0, 0}),
                      [y = y](const A&) { return y; });
  }
}

}  // namespace stratum::emulator
