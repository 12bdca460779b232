// Comparisons, selections and predicates.
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

template <class F>
struct Operand;
template <class F, class T>
struct Operand<bool (F::*)(T, T) const> {
  using Type = T;
};

template <auto holds>
void compare(Warp& warp, const Step& step, uint32_t lanes) {
  using T = typename Operand<decltype(&decltype(holds)::operator())>::Type;
  const T* a = row<T>(warp, step.row[1]);
  const T* b = row<T>(warp, step.row[2]);
  uint32_t bits = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) bits |= static_cast<uint32_t>(holds(a[lane], b[lane])) << lane;
  set_predicate(warp, step.row[0], lanes, bits);
}

template <class T>
void select(Warp& warp, const Step& step, uint32_t lanes) {
  const uint32_t chosen = *row<uint32_t>(warp, step.row[3]);
  uint32_t first[kLanes];
  for (uint32_t lane = 0; lane < kLanes; ++lane) first[lane] = chosen >> lane & 1;
  each_row(
      lanes, row<T>(warp, step.row[0]), [](T a, T b, uint32_t take) { return take ? a : b; }, row<T>(warp, step.row[1]),
      row<T>(warp, step.row[2]), static_cast<const uint32_t*>(first));
}

// On predicates a function works on the bits of all lanes at once.
template <auto combine>
void predicates(Warp& warp, const Step& step, uint32_t lanes) {
  const uint32_t bits = combine(*row<uint32_t>(warp, step.row[1]), *row<uint32_t>(warp, step.row[2]));
  set_predicate(warp, step.row[0], lanes, bits);
}

void move_predicate(Warp& warp, const Step& step, uint32_t lanes) {
  set_predicate(warp, step.row[0], lanes, *row<uint32_t>(warp, step.row[1]));
}

void invert_predicate(Warp& warp, const Step& step, uint32_t lanes) {
  set_predicate(warp, step.row[0], lanes, ~*row<uint32_t>(warp, step.row[1]));
}

#define COMPARISONS(name, operands, T)                                         \
  {"setp.lt." name, operands, compare<[](T a, T b) { return a < b; }>},        \
      {"setp.le." name, operands, compare<[](T a, T b) { return a <= b; }>},   \
      {"setp.gt." name, operands, compare<[](T a, T b) { return b < a; }>},    \
      {"setp.ge." name, operands, compare<[](T a, T b) { return b <= a; }>}, { \
    "setp.eq." name, operands, compare<[](T a, T b) { return a == b; }>        \
  }

#define INTEGER_COMPARISONS(name, operands, T)                          \
  COMPARISONS(name, operands, T), {                                     \
    "setp.ne." name, operands, compare<[](T a, T b) { return a != b; }> \
  }

// Subnormals are 0.
float flush(float x) { return __builtin_fabsf(x) < 1.17549435e-38f ? 0 : x; }

// The ordered comparisons are false for NaN, those with u at the end true.
#define FLOAT_COMPARISONS(name, F)                                                                         \
  {"setp.lt." name, "p=ww", compare<[](float a, float b) { return F(a) < F(b); }>},                        \
      {"setp.le." name, "p=ww", compare<[](float a, float b) { return F(a) <= F(b); }>},                   \
      {"setp.gt." name, "p=ww", compare<[](float a, float b) { return F(b) < F(a); }>},                    \
      {"setp.ge." name, "p=ww", compare<[](float a, float b) { return F(b) <= F(a); }>},                   \
      {"setp.eq." name, "p=ww", compare<[](float a, float b) { return F(a) == F(b); }>},                   \
      {"setp.ne." name, "p=ww", compare<[](float a, float b) { return F(a) < F(b) || F(b) < F(a); }>},     \
      {"setp.ltu." name, "p=ww", compare<[](float a, float b) { return !(F(b) <= F(a)); }>},               \
      {"setp.leu." name, "p=ww", compare<[](float a, float b) { return !(F(b) < F(a)); }>},                \
      {"setp.gtu." name, "p=ww", compare<[](float a, float b) { return !(F(a) <= F(b)); }>},               \
      {"setp.geu." name, "p=ww", compare<[](float a, float b) { return !(F(a) < F(b)); }>},                \
      {"setp.equ." name, "p=ww", compare<[](float a, float b) { return !(F(a) < F(b) || F(b) < F(a)); }>}, \
      {"setp.neu." name, "p=ww", compare<[](float a, float b) { return !(F(a) == F(b)); }>},               \
      {"setp.num." name, "p=ww", compare<[](float a, float b) { return a == a && b == b; }>}, {            \
    "setp.nan." name, "p=ww", compare<[](float a, float b) { return a != a || b != b; }>                   \
  }

// A 16-bit number is the lower half of a word.
#define SHORT_COMPARISONS(name, T)                                                               \
  {"setp.lt." name, "p=hh", compare<[](uint32_t a, uint32_t b) { return T(a) < T(b); }>},        \
      {"setp.le." name, "p=hh", compare<[](uint32_t a, uint32_t b) { return T(a) <= T(b); }>},   \
      {"setp.gt." name, "p=hh", compare<[](uint32_t a, uint32_t b) { return T(b) < T(a); }>},    \
      {"setp.ge." name, "p=hh", compare<[](uint32_t a, uint32_t b) { return T(b) <= T(a); }>},   \
      {"setp.eq." name, "p=hh", compare<[](uint32_t a, uint32_t b) { return T(a) == T(b); }>}, { \
    "setp.ne." name, "p=hh", compare<[](uint32_t a, uint32_t b) { return T(a) != T(b); }>        \
  }

const Form kForms[] = {
    SHORT_COMPARISONS("s16", int16_t),
    SHORT_COMPARISONS("u16", uint16_t),
    {"setp.eq.b16", "p=hh", compare<[](uint32_t a, uint32_t b) { return uint16_t(a) == uint16_t(b); }>},
    {"setp.ne.b16", "p=hh", compare<[](uint32_t a, uint32_t b) { return uint16_t(a) != uint16_t(b); }>},
    {"selp.b16", "h=hhp", select<uint32_t>},
    INTEGER_COMPARISONS("s32", "p=ww", int32_t),
    INTEGER_COMPARISONS("u32", "p=ww", uint32_t),
    INTEGER_COMPARISONS("s64", "p=qq", int64_t),
    INTEGER_COMPARISONS("u64", "p=qq", uint64_t),
    FLOAT_COMPARISONS("f32", float),
    FLOAT_COMPARISONS("ftz.f32", flush),
    {"setp.eq.b32", "p=ww", compare<[](uint32_t a, uint32_t b) { return a == b; }>},
    {"setp.ne.b32", "p=ww", compare<[](uint32_t a, uint32_t b) { return a != b; }>},
    {"setp.eq.b64", "p=qq", compare<[](uint64_t a, uint64_t b) { return a == b; }>},
    {"setp.ne.b64", "p=qq", compare<[](uint64_t a, uint64_t b) { return a != b; }>},
    {"selp.b32", "w=wwp", select<uint32_t>},
    {"selp.s32", "w=wwp", select<uint32_t>},
    {"selp.u32", "w=wwp", select<uint32_t>},
    {"selp.f32", "w=wwp", select<uint32_t>},
    {"selp.b64", "q=qqp", select<uint64_t>},
    {"selp.u64", "q=qqp", select<uint64_t>},
    {"selp.s64", "q=qqp", select<uint64_t>},
    {"mov.pred", "p=p", move_predicate},
    {"not.pred", "p=p", invert_predicate},
    {"and.pred", "p=pp", predicates<[](uint32_t a, uint32_t b) { return a & b; }>},
    {"or.pred", "p=pp", predicates<[](uint32_t a, uint32_t b) { return a | b; }>},
    {"xor.pred", "p=pp", predicates<[](uint32_t a, uint32_t b) { return a ^ b; }>},
};

}  // namespace

FormList compare_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
