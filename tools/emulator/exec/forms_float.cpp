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

const Form kForms[] = {
    {"add.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a + b); }>},
    {"sub.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a - b); }>},
    {"mul.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a * b); }>},
    {"div.rn.f32", "w=ww", each<[](float a, float b) { return canonical(a / b); }>},
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
