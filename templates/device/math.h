// The special functions of the softmax and the gate, as single MUFU instructions.
#pragma once

#include "device/element.h"

namespace stratum {

// 2^x, relative error about 2^-22; exp2(0) is exactly 1 and exp2(-inf) exactly 0.
STRATUM_DEVICE float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// log2(x), absolute error about 2^-22.
STRATUM_DEVICE float fast_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh(x), relative error about 2^-11; the gate is sigmoid(x) = 0.5 + 0.5 tanh(x / 2).
STRATUM_DEVICE float fast_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

// The larger or the sum over the four lanes that share a row of an MMA accumulator; every lane gets the result.
STRATUM_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

STRATUM_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace stratum
