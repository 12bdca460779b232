// Arithmetic on two 16-bit floats in a word, each rounded once to the nearest even; subnormals are kept.
#include "exec/floats.h"
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

struct Halves {
  [[gnu::always_inline]] static float widen(uint32_t bits) { return from_float16(bits); }
  [[gnu::always_inline]] static uint32_t narrow(float x) { return to_float16(x); }
};
struct Bfloats {
  [[gnu::always_inline]] static float widen(uint32_t bits) { return from_bfloat16(bits); }
  [[gnu::always_inline]] static uint32_t narrow(float x) { return to_bfloat16(x); }
};

// One ulp, towards where the exact value is, unless `x` is exact or odd: a further rounding to at least two bits less
// is then that of the exact value.
template <class T, class Bits>
[[gnu::always_inline]] inline T to_odd(T x, T missing) {
  const Bits bits = __builtin_bit_cast(Bits, x);
  const bool away = (missing > 0) == (x > 0);
  const bool moves = missing != 0 && (bits & 1) == 0 && x - x == 0;
  return __builtin_bit_cast(T, moves ? (away ? bits + 1 : bits - 1) : bits);
}

// a b + c as a float32 that rounds to 16 bits as the exact value does. The product is exact in a double.
[[gnu::always_inline]] inline float sum_of_product(float a, float b, float c) {
  const double product = double{a} * b, sum = product + c;
  const double taken = sum - product, missing = (product - (sum - taken)) + (c - taken);
  const double odd = to_odd<double, uint64_t>(sum, missing);
  const float narrow = static_cast<float>(odd);
  return to_odd<float, uint32_t>(narrow, static_cast<float>(odd - narrow));
}

template <class Format>
[[gnu::always_inline]] inline uint32_t each_half(uint32_t a, uint32_t b, uint32_t c) {
  const auto one = [&](int shift) {
    const auto widen = [&](uint32_t word) { return Format::widen(word >> shift & 0xffff); };
    return Format::narrow(sum_of_product(widen(a), widen(b), widen(c))) << shift;
  };
  return one(0) | one(16);
}

constexpr uint32_t kSigns = 0x80008000;

// All are a b + c: addition with b = 1, multiplication with c = -0, which changes no sum; a NaN gives the one NaN.
#define PAIRS(type, Format, one)                                                                                      \
  {"add.rn." type, "w=ww", each<[](uint32_t a, uint32_t b) { return each_half<Format>(a, one, b); }>},                \
      {"sub.rn." type, "w=ww", each<[](uint32_t a, uint32_t b) { return each_half<Format>(a, one, b ^ kSigns); }>},   \
      {"mul.rn." type, "w=ww", each<[](uint32_t a, uint32_t b) { return each_half<Format>(a, b, kSigns); }>},         \
      {"fma.rn." type, "w=www", each<[](uint32_t a, uint32_t b, uint32_t c) { return each_half<Format>(a, b, c); }>}, \
      {"neg." type, "w=w", each<[](uint32_t a) { return each_half<Format>(a, (one) ^ kSigns, kSigns); }>}, {          \
    "abs." type, "w=w", each<[](uint32_t a) { return each_half<Format>(a & ~kSigns, one, kSigns); }>                  \
  }

const Form kForms[] = {
    PAIRS("f16x2", Halves, 0x3c003c00u),
    PAIRS("bf16x2", Bfloats, 0x3f803f80u),
};

}  // namespace

FormList pair_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
