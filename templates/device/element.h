// The two 16-bit element types, as tags: what differs between them is the MMA's type and the packing of two floats.
#pragma once

#include "abi/types.h"

#define STRATUM_DEVICE static __device__ __forceinline__

namespace stratum {

struct bfloat16 {
  // {low, high} rounded to nearest even, low in bits 0-15.
  STRATUM_DEVICE u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  STRATUM_DEVICE float low(u32 packed) { return __uint_as_float(packed << 16); }
  STRATUM_DEVICE float high(u32 packed) { return __uint_as_float(packed & 0xffff0000u); }
};

struct float16 {
  STRATUM_DEVICE u32 pack(float low, float high) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  STRATUM_DEVICE float low(u32 packed) {
    float value;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(value) : "r"(packed));
    return value;
  }
  STRATUM_DEVICE float high(u32 packed) {
    float value;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "r"(packed));
    return value;
  }
};

}  // namespace stratum
