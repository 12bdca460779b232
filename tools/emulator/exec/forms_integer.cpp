// Integer arithmetic, shifts and bits.
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

using s32 = int32_t;
using u32 = uint32_t;
using s64 = int64_t;
using u64 = uint64_t;

// What PTX leaves open the hardware answers so: a quotient by zero has all bits set, the remainder is the dividend; the
// one quotient that overflows wraps.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (T(-1) < T(0)) {
    if (b == -1) return static_cast<T>(u64(0) - u64(a));
  }
  return a / b;
}

template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (T(-1) < T(0)) {
    if (b == -1) return 0;
  }
  return a % b;
}

template <class T>
T left(T a, u32 by) {
  return by < 8 * sizeof(T) ? a << by : 0;
}

template <class T>
T right(T a, u32 by) {
  const u32 most = 8 * sizeof(T) - 1;
  if constexpr (T(-1) < T(0)) return a >> (by < most ? by : most);
  return by > most ? 0 : a >> by;
}

u32 high(u64 product) { return static_cast<u32>(product >> 32); }

u32 insert_bits(u32 field, u32 into, u32 position, u32 length) {
  position &= 0xff, length &= 0xff;
  if (position > 31) return into;
  const u32 mask = (length > 31 ? ~u32(0) : (u32(1) << length) - 1) << position;
  return (into & ~mask) | (field << position & mask);
}

// Sums and low products of signed numbers wrap, so they are formed unsigned.
const Form kForms[] = {
    {"add.s32", "w=ww", each<[](u32 a, u32 b) { return a + b; }>},
    {"add.u32", "w=ww", each<[](u32 a, u32 b) { return a + b; }>},
    {"add.s64", "q=qq", each<[](u64 a, u64 b) { return a + b; }>},
    {"add.u64", "q=qq", each<[](u64 a, u64 b) { return a + b; }>},
    {"sub.s32", "w=ww", each<[](u32 a, u32 b) { return a - b; }>},
    {"sub.u32", "w=ww", each<[](u32 a, u32 b) { return a - b; }>},
    {"sub.s64", "q=qq", each<[](u64 a, u64 b) { return a - b; }>},
    {"sub.u64", "q=qq", each<[](u64 a, u64 b) { return a - b; }>},
    {"neg.s32", "w=w", each<[](u32 a) { return u32(0) - a; }>},
    {"neg.s64", "q=q", each<[](u64 a) { return u64(0) - a; }>},
    {"mul.lo.s32", "w=ww", each<[](u32 a, u32 b) { return a * b; }>},
    {"mul.lo.s64", "q=qq", each<[](u64 a, u64 b) { return a * b; }>},
    {"mul.hi.s32", "w=ww", each<[](s32 a, s32 b) { return high(s64(a) * b); }>},
    {"mul.hi.u32", "w=ww", each<[](u32 a, u32 b) { return high(u64(a) * b); }>},
    {"mul.wide.s32", "q=ww", each<[](s32 a, s32 b) { return s64(a) * b; }>},
    {"mul.wide.u32", "q=ww", each<[](u32 a, u32 b) { return u64(a) * b; }>},
    {"mad.lo.s32", "w=www", each<[](u32 a, u32 b, u32 c) { return a * b + c; }>},
    {"mad.lo.s64", "q=qqq", each<[](u64 a, u64 b, u64 c) { return a * b + c; }>},
    {"div.s32", "w=ww", each<[](s32 a, s32 b) { return quotient(a, b); }>},
    {"div.u32", "w=ww", each<[](u32 a, u32 b) { return quotient(a, b); }>},
    {"div.s64", "q=qq", each<[](s64 a, s64 b) { return quotient(a, b); }>},
    {"div.u64", "q=qq", each<[](u64 a, u64 b) { return quotient(a, b); }>},
    {"rem.s32", "w=ww", each<[](s32 a, s32 b) { return remainder(a, b); }>},
    {"rem.u32", "w=ww", each<[](u32 a, u32 b) { return remainder(a, b); }>},
    {"min.s32", "w=ww", each<[](s32 a, s32 b) { return a < b ? a : b; }>},
    {"min.u32", "w=ww", each<[](u32 a, u32 b) { return a < b ? a : b; }>},
    {"min.s64", "q=qq", each<[](s64 a, s64 b) { return a < b ? a : b; }>},
    {"max.s32", "w=ww", each<[](s32 a, s32 b) { return b < a ? a : b; }>},
    {"max.u32", "w=ww", each<[](u32 a, u32 b) { return b < a ? a : b; }>},
    {"max.s64", "q=qq", each<[](s64 a, s64 b) { return b < a ? a : b; }>},
    {"and.b32", "w=ww", each<[](u32 a, u32 b) { return a & b; }>},
    {"and.b64", "q=qq", each<[](u64 a, u64 b) { return a & b; }>},
    {"or.b32", "w=ww", each<[](u32 a, u32 b) { return a | b; }>},
    {"or.b64", "q=qq", each<[](u64 a, u64 b) { return a | b; }>},
    {"xor.b32", "w=ww", each<[](u32 a, u32 b) { return a ^ b; }>},
    {"xor.b64", "q=qq", each<[](u64 a, u64 b) { return a ^ b; }>},
    {"not.b32", "w=w", each<[](u32 a) { return ~a; }>},
    {"not.b64", "q=q", each<[](u64 a) { return ~a; }>},
    {"shl.b32", "w=ww", each<[](u32 a, u32 by) { return left(a, by); }>},
    {"shl.b64", "q=qw", each<[](u64 a, u32 by) { return left(a, by); }>},
    {"shr.s32", "w=ww", each<[](s32 a, u32 by) { return right(a, by); }>},
    {"shr.u32", "w=ww", each<[](u32 a, u32 by) { return right(a, by); }>},
    {"shr.s64", "q=qw", each<[](s64 a, u32 by) { return right(a, by); }>},
    {"shr.u64", "q=qw", each<[](u64 a, u32 by) { return right(a, by); }>},
    // A 16-bit register is a word whose upper half is zero; an immediate may have it set.
    {"and.b16", "h=hh", each<[](u32 a, u32 b) { return a & b & 0xffff; }>},
    {"or.b16", "h=hh", each<[](u32 a, u32 b) { return (a | b) & 0xffff; }>},
    {"shl.b16", "h=hw", each<[](u32 a, u32 by) { return by < 16 ? (a << by) & 0xffff : 0; }>},
    {"add.s16", "h=hh", each<[](u32 a, u32 b) { return (a + b) & 0xffff; }>},
    {"sub.s16", "h=hh", each<[](u32 a, u32 b) { return (a - b) & 0xffff; }>},
    {"mul.lo.s16", "h=hh", each<[](u32 a, u32 b) { return (a * b) & 0xffff; }>},
    {"mul.wide.u16", "w=hh", each<[](u32 a, u32 b) { return (a & 0xffff) * (b & 0xffff); }>},
    {"bfi.b32", "w=wwww",
     each<[](u32 a, u32 b, u32 position, u32 length) { return insert_bits(a, b, position, length); }>},
};

}  // namespace

FormList integer_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
