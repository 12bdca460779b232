// float32 arithmetic. Results round to the nearest even; subnormals are kept where the form doesn't say .ftz. Nothing
// here may be contracted to an FMA by the compiler (-ffp-contract=off), so that every machine gets the same bits.
#include "exec/approximations.h"
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

// NaN if either is.
[[gnu::always_inline]] inline float unless_nan(float a, float b, float result) {
  return a == a && b == b ? result : float_of(kNanBits);
}

// To [0, 1], NaN to 0.
[[gnu::always_inline]] inline float saturated(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

// The product with the divisor's approximate reciprocal, both scaled where the divisor is subnormal.
[[gnu::always_inline]] inline float quotient_approximate(float a, float b) {
  const float scale = magnitude_of(b) < 0x1p-126f ? 0x1p24f : 1.0f;
  return canonical(a * scale * reciprocal_approximate(b * scale));
}

const Form kForms[] = {
    {"add.rn.ftz.f32", "w=ww", each<[](float a, float b) { return canonical(flushed(flushed(a) + flushed(b))); }>},
    {"sub.rn.ftz.f32", "w=ww", each<[](float a, float b) { return canonical(flushed(flushed(a) - flushed(b))); }>},
    {"mul.rn.ftz.f32", "w=ww", each<[](float a, float b) { return canonical(flushed(flushed(a) * flushed(b))); }>},
    {"div.rn.ftz.f32", "w=ww", each<[](float a, float b) { return canonical(flushed(flushed(a) / flushed(b))); }>},
    {"fma.rn.ftz.f32", "w=www", each<[](float a, float b, float c) {
       return canonical(flushed(__builtin_fmaf(flushed(a), flushed(b), flushed(c))));
     }>},
    {"add.rn.sat.f32", "w=ww", each<[](float a, float b) { return saturated(a + b); }>},
    {"sub.rn.sat.f32", "w=ww", each<[](float a, float b) { return saturated(a - b); }>},
    {"mul.rn.sat.f32", "w=ww", each<[](float a, float b) { return saturated(a * b); }>},
    {"fma.rn.sat.f32", "w=www", each<[](float a, float b, float c) { return saturated(__builtin_fmaf(a, b, c)); }>},
    {"rcp.rn.f32", "w=w", each<[](float a) { return canonical(1 / a); }>},
    {"rcp.rn.ftz.f32", "w=w", each<[](float a) { return canonical(flushed(1 / flushed(a))); }>},
    {"sqrt.rn.f32", "w=w", each<[](float a) { return canonical(__builtin_sqrtf(a)); }>},
    {"sqrt.rn.ftz.f32", "w=w", each<[](float a) { return canonical(__builtin_sqrtf(flushed(a))); }>},
    {"max.ftz.f32", "w=ww", each<[](float a, float b) { return larger(flushed(a), flushed(b)); }>},
    {"min.ftz.f32", "w=ww", each<[](float a, float b) { return smaller(flushed(a), flushed(b)); }>},
    {"max.NaN.f32", "w=ww", each<[](float a, float b) { return unless_nan(a, b, larger(a, b)); }>},
    {"min.NaN.f32", "w=ww", each<[](float a, float b) { return unless_nan(a, b, smaller(a, b)); }>},
    {"max.ftz.NaN.f32", "w=ww",
     each<[](float a, float b) { return unless_nan(a, b, larger(flushed(a), flushed(b))); }>},
    {"min.ftz.NaN.f32", "w=ww",
     each<[](float a, float b) { return unless_nan(a, b, smaller(flushed(a), flushed(b))); }>},
    {"neg.ftz.f32", "w=w", each<[](float a) { return canonical(-flushed(a)); }>},
    {"abs.ftz.f32", "w=w", each<[](float a) { return canonical(magnitude_of(flushed(a))); }>},
    {"copysign.f32", "w=ww", each<[](uint32_t sign, uint32_t a) { return (sign & 0x80000000) | (a & 0x7fffffff); }>},
    {"add.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a + b); }>},
    {"sub.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a - b); }>},
    {"mul.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a * b); }>},
    {"div.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a / b); }>},
    {"div.approx.f32", "w=ww", each<[](float a, float b) { return quotient_approximate(a, b); }>},
    {"div.approx.ftz.f32", "w=ww",
     each<[](float a, float b) { return flushed(quotient_approximate(flushed(a), flushed(b))); }>},
    {"fma.rn.f32", "w=www", each<[](float a, float b, float c) { return canonical(__builtin_fmaf(a, b, c)); }>},
    {"max.f32", "w=ww", each<[](float a, float b) { return larger(a, b); }>},
    {"min.f32", "w=ww", each<[](float a, float b) { return smaller(a, b); }>},
    {"neg.f32", "w=w", each<[](float a) { return canonical(-a); }>},
    {"abs.f32", "w=w", each<[](float a) { return canonical(magnitude_of(a)); }>},
    {"ex2.approx.ftz.f32", "w=w", each<[](float a) { return exp2_approximate(flushed(a)); }>},
    {"tanh.approx.f32", "w=w", each<[](float a) { return tanh_approximate(a); }>},
    {"lg2.approx.ftz.f32", "w=w", each<[](float a) { return log2_approximate(flushed(a)); }>},
    {"rcp.approx.ftz.f32", "w=w", each<[](float a) { return reciprocal_approximate(flushed(a)); }>},
    {"sqrt.approx.ftz.f32", "w=w", each<[](float a) { return root_approximate<Root::Plain>(flushed(a)); }>},
    {"rsqrt.approx.ftz.f32", "w=w", each<[](float a) { return root_approximate<Root::Reciprocal>(flushed(a)); }>},
};

}  // namespace

FormList float_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
