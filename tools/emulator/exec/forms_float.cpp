// float32 arithmetic. Results round to the nearest even; subnormals are kept where the form doesn't say .ftz. Nothing
// here may be contracted to an FMA by the compiler (-ffp-contract=off), so that every machine gets the same bits.
#include "exec/floats.h"
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

// The number where one operand is NaN; +0 is larger than -0.
[[gnu::always_inline]] inline float larger(float a, float b) {
  const float ordered = a > b ? a : b;
  const float same = float_of(bits_of(a) & bits_of(b));
  const float both = a == b ? same : ordered;
  const float with_nan = a == a ? a : canonical(b);
  return a == a && b == b ? both : with_nan;
}

[[gnu::always_inline]] inline float smaller(float a, float b) {
  const float ordered = a < b ? a : b;
  const float same = float_of(bits_of(a) | bits_of(b));
  const float both = a == b ? same : ordered;
  const float with_nan = a == a ? a : canonical(b);
  return a == a && b == b ? both : with_nan;
}

[[gnu::always_inline]] inline float flushed(float x) {
  return (bits_of(x) & 0x7f800000) == 0 ? float_of(bits_of(x) & 0x80000000) : x;
}

// 2^x to 1e-7, with subnormal results flushed: 2^n times a polynomial of degree 6 that is exact at 0 and has the least
// relative error on [-0.5, 0.5].
[[gnu::always_inline]] inline float exp2_flushed(float x) {
  constexpr float kRounder = 12582912;  // 1.5 * 2^23: a sum with it has no fraction
  const float bounded = x < -150 ? -150 : x > 130 ? 130 : x;
  const float n = (bounded + kRounder) - kRounder;
  const float r = bounded - n;
  float p = 1.5353362e-4f;
  p = p * r + 1.3398875e-3f;
  p = p * r + 9.61843692e-3f;
  p = p * r + 5.55033237e-2f;
  p = p * r + 2.40226477e-1f;
  p = p * r + 6.93147182e-1f;
  p = p * r + 1;
  // 2^n may be no float although the result is one, so n is applied in two halves. NaN takes any path to here.
  const int whole = x == x ? static_cast<int>(n) : 0;
  const int half = whole >> 1;
  const float scaled =
      p * float_of(static_cast<uint32_t>(half + 127) << 23) * float_of(static_cast<uint32_t>(whole - half + 127) << 23);
  return canonical(flushed(scaled));
}

// To 2e-6 of the value; the hardware's own is good for 2^-11.
[[gnu::always_inline]] inline float tanh_near(float x) {
  const float magnitude = float_of(bits_of(x) & 0x7fffffff);
  const float square = x * x;
  const float series = 1 + square * (-0.333333333f + square * (0.133333333f + square * -0.0539682540f));
  const float bounded = magnitude > 10 ? 10 : magnitude;
  const float far = 1 - 2 / (exp2_flushed(bounded * 2.88539008f) + 1);
  const float result = magnitude < 0.25f ? magnitude * series : far;
  return x == x ? float_of(bits_of(result) | (bits_of(x) & 0x80000000)) : float_of(kNanBits);
}

// A call a lane: the C library's, which is exact enough and rarely needed.
void log2_flushed(Warp& warp, const Step& step, uint32_t lanes) {
  float* to = row<float>(warp, step.row[0]);
  const float* from = row<float>(warp, step.row[1]);
  for_each_lane(lanes, [&](uint32_t lane) { to[lane] = canonical(__builtin_log2f(flushed(from[lane]))); });
}

const Form kForms[] = {
    {"add.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a + b); }>},
    {"sub.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a - b); }>},
    {"mul.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a * b); }>},
    {"div.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a / b); }>},
    {"fma.rn.f32", "w=www", each<[](float a, float b, float c) { return canonical(__builtin_fmaf(a, b, c)); }>},
    {"max.f32", "w=ww", each<[](float a, float b) { return larger(a, b); }>},
    {"min.f32", "w=ww", each<[](float a, float b) { return smaller(a, b); }>},
    {"neg.f32", "w=w", each<[](uint32_t a) { return a ^ 0x80000000; }>},
    {"abs.f32", "w=w", each<[](uint32_t a) { return a & 0x7fffffff; }>},
    {"ex2.approx.ftz.f32", "w=w", each<[](float a) { return exp2_flushed(a); }>},
    {"tanh.approx.f32", "w=w", each<[](float a) { return tanh_near(a); }>},
    {"lg2.approx.ftz.f32", "w=w", log2_flushed},
};

}  // namespace

FormList float_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
