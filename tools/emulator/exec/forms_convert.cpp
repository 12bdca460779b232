// Conversions between types.
#include "exec/floats.h"
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

// A 16-bit number is the lower half of a word.
template <size_t kBytes>
struct RegisterOf {
  using Type = uint32_t;
};
template <>
struct RegisterOf<8> {
  using Type = uint64_t;
};

// Integers wrap, or are bounded by what the type holds; narrow ones are left extended as their type says.
template <class To, class From, bool kSaturates>
void convert(Warp& warp, const Step& step, uint32_t lanes) {
  using ToRow = typename RegisterOf<sizeof(To)>::Type;
  using FromRow = typename RegisterOf<sizeof(From)>::Type;
  each_row(
      lanes, row<ToRow>(warp, step.row[0]),
      [](FromRow bits) {
        const From a = static_cast<From>(bits);
        if constexpr (kSaturates) {
          constexpr bool kSigned = To(-1) < To(0);
          constexpr __int128 kMost = (__int128(1) << (8 * sizeof(To) - kSigned)) - 1, kLeast = kSigned ? -kMost - 1 : 0;
          return static_cast<ToRow>(static_cast<To>(a > kMost ? kMost : a < kLeast ? kLeast : __int128(a)));
        } else {
          return static_cast<ToRow>(static_cast<To>(a));
        }
      },
      row<FromRow>(warp, step.row[1]));
}

// In 16-bit registers the upper half of the word is zero.
template <class From, class To, bool kSaturates>
void convert_to_half(Warp& warp, const Step& step, uint32_t lanes) {
  convert<To, From, kSaturates>(warp, step, lanes);
  uint32_t* to = row<uint32_t>(warp, step.row[0]);
  for_each_lane(lanes, [&](uint32_t lane) { to[lane] &= 0xffff; });
}

#define WIDE_FROM(name, letter, T)                                             \
  {"cvt.s32." name, "w=" letter, convert<int32_t, T, false>},                  \
      {"cvt.u32." name, "w=" letter, convert<uint32_t, T, false>},             \
      {"cvt.s64." name, "q=" letter, convert<int64_t, T, false>},              \
      {"cvt.u64." name, "q=" letter, convert<uint64_t, T, false>},             \
      {"cvt.sat.s32." name, "w=" letter, convert<int32_t, T, true>},           \
      {"cvt.sat.u32." name, "w=" letter, convert<uint32_t, T, true>},          \
      {"cvt.sat.s64." name, "q=" letter, convert<int64_t, T, true>},           \
      {"cvt.sat.u64." name, "q=" letter, convert<uint64_t, T, true>},          \
      {"cvt.s16." name, "h=" letter, convert_to_half<T, int16_t, false>},      \
      {"cvt.u16." name, "h=" letter, convert_to_half<T, uint16_t, false>},     \
      {"cvt.sat.s16." name, "h=" letter, convert_to_half<T, int16_t, true>}, { \
    "cvt.sat.u16." name, "h=" letter, convert_to_half<T, uint16_t, true>       \
  }

enum class Rounding { Nearest, Zero, Down, Up };

template <Rounding rounding>
float whole(float x) {
  switch (rounding) {
    case Rounding::Nearest:
      return __builtin_rintf(x);
    case Rounding::Zero:
      return __builtin_truncf(x);
    case Rounding::Down:
      return __builtin_floorf(x);
    case Rounding::Up:
      return __builtin_ceilf(x);
  }
}

float without_subnormals(float x) { return __builtin_fabsf(x) < 1.17549435e-38f ? __builtin_copysignf(0, x) : x; }

// Numbers beyond the type's are bounded; NaN is 0 as 32 bits, and the highest bit alone as 64.
template <class To, Rounding rounding, bool kFlushes>
void convert_float(Warp& warp, const Step& step, uint32_t lanes) {
  using ToRow = typename RegisterOf<sizeof(To)>::Type;
  ToRow* to = row<ToRow>(warp, step.row[0]);
  const float* from = row<float>(warp, step.row[1]);
  constexpr bool kSigned = To(-1) < To(0);
  constexpr int kBits = 8 * sizeof(To) - kSigned;
  const float beyond = sizeof(To) == 8 ? (kSigned ? 0x1p63f : 0x1p64f) : (kSigned ? 0x1p31f : 0x1p32f);
  const ToRow most = kBits == 64 ? ~ToRow{0} : static_cast<ToRow>((uint64_t{1} << (kBits & 63)) - 1);
  const ToRow least = kSigned ? most + 1 : 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    const float x = whole<rounding>(kFlushes ? without_subnormals(from[lane]) : from[lane]);
    const bool below = kSigned ? x < -beyond : x < 0;
    const ToRow nan = sizeof(To) == 8 ? ToRow{1} << (8 * sizeof(To) - 1) : 0;
    to[lane] = x != x ? nan : x >= beyond ? most : below ? least : static_cast<ToRow>(static_cast<To>(x));
  });
}

#define ROUNDED(name, mode)                                                                                        \
  {"cvt." name ".s32.f32", "w=w", convert_float<int32_t, mode, false>},                                            \
      {"cvt." name ".u32.f32", "w=w", convert_float<uint32_t, mode, false>},                                       \
      {"cvt." name ".s64.f32", "q=w", convert_float<int64_t, mode, false>},                                        \
      {"cvt." name ".u64.f32", "q=w", convert_float<uint64_t, mode, false>},                                       \
      {"cvt." name ".ftz.s32.f32", "w=w", convert_float<int32_t, mode, true>},                                     \
      {"cvt." name ".ftz.u32.f32", "w=w", convert_float<uint32_t, mode, true>},                                    \
      {"cvt." name ".ftz.s64.f32", "q=w", convert_float<int64_t, mode, true>},                                     \
      {"cvt." name ".ftz.u64.f32", "q=w", convert_float<uint64_t, mode, true>},                                    \
      {"cvt." name ".f32.f32", "w=w", each<[](float a) { return canonical(whole<mode>(a)); }>}, {                  \
    "cvt." name ".ftz.f32.f32", "w=w", each<[](float a) { return canonical(whole<mode>(without_subnormals(a))); }> \
  }

// cvta: generic addresses and global addresses are both addresses of the host.
const Form kForms[] = {
    ROUNDED("rni", Rounding::Nearest),
    ROUNDED("rzi", Rounding::Zero),
    ROUNDED("rmi", Rounding::Down),
    ROUNDED("rpi", Rounding::Up),
    WIDE_FROM("s16", "h", int16_t),
    WIDE_FROM("u16", "h", uint16_t),
    WIDE_FROM("s32", "w", int32_t),
    WIDE_FROM("u32", "w", uint32_t),
    WIDE_FROM("s64", "q", int64_t),
    WIDE_FROM("u64", "q", uint64_t),
    {"cvt.u32.u8", "w=w", convert<uint32_t, uint8_t, false>},
    {"cvt.s32.s8", "w=w", convert<int32_t, int8_t, false>},
    {"cvt.u8.u32", "w=w", convert<uint8_t, uint32_t, false>},
    {"cvt.s8.s32", "w=w", convert<int8_t, int32_t, false>},
    {"cvt.sat.u8.s32", "w=w", convert<uint8_t, int32_t, true>},
    {"cvt.sat.s8.s32", "w=w", convert<int8_t, int32_t, true>},
    {"cvt.rn.f32.s32", "w=w", each<[](int32_t a) { return static_cast<float>(a); }>},
    {"cvt.rn.f32.u32", "w=w", each<[](uint32_t a) { return static_cast<float>(a); }>},
    {"cvt.rn.f32.s64", "w=q", each<[](int64_t a) { return static_cast<float>(a); }>},
    {"cvt.rn.f32.u64", "w=q", each<[](uint64_t a) { return static_cast<float>(a); }>},
    {"cvt.f32.bf16", "w=h", each<[](uint32_t a) { return from_bfloat16(a); }>},
    {"cvt.rn.bf16.f32", "h=w", each<[](float a) { return to_bfloat16(a); }>},
    {"cvt.rn.f16.f32", "h=w", each<[](float a) { return to_float16(a); }>},
    {"cvt.s64.s32", "q=q", each<[](int64_t a) { return int64_t{static_cast<int32_t>(a)}; }>},
    {"cvta.to.global.u64", "q=q", each<[](uint64_t a) { return a; }>},
    {"cvt.f32.f16", "w=h", each<[](uint32_t a) { return canonical(from_float16(a)); }>},
    {"cvt.rn.bf16x2.f32", "w=ww",
     each<[](float high, float low) { return to_bfloat16(high) << 16 | to_bfloat16(low); }>},
    {"cvt.rn.f16x2.f32", "w=ww", each<[](float high, float low) { return to_float16(high) << 16 | to_float16(low); }>},
};

}  // namespace

FormList convert_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
