// Integer arithmetic, shifts and bits.
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

using s32 = int32_t;
using u32 = uint32_t;
using s64 = int64_t;
using u64 = uint64_t;

// What PTX leaves open the hardware answers so: a quotient by zero has all bits set; the remainder is the dividend, or
// as 64 bits all ones; the one quotient that overflows wraps.
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
  if (b == 0) return sizeof(T) == 8 ? static_cast<T>(-1) : a;
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

u64 upper(unsigned __int128 product) { return static_cast<u64>(product >> 64); }

u32 insert_bits(u32 field, u32 into, u32 position, u32 length) {
  position &= 0xff, length &= 0xff;
  if (position > 31) return into;
  const u32 mask = (length > 31 ? ~u32(0) : (u32(1) << length) - 1) << position;
  return (into & ~mask) | (field << position & mask);
}

u64 insert_bits(u64 field, u64 into, u32 position, u32 length) {
  if (position > 63) return into;
  const u64 mask = (length > 63 ? ~u64(0) : (u64(1) << length) - 1) << position;
  return (into & ~mask) | (field << position & mask);
}

// A signed field whose upper end is beyond the number takes the number's sign for the bits that are missing. Of 32-bit
// forms the lower 8 bits of position and length count.
template <class T>
T extract_bits(T a, u32 position, u32 length) {
  const u32 bits = 8 * sizeof(T);
  if (bits == 32) position &= 0xff, length &= 0xff;
  if (length == 0) return 0;
  const T rest = right(a, position);
  if (length >= bits) return rest;
  if constexpr (T(-1) < T(0)) {
    const u32 there = position >= bits ? 1 : length < bits - position ? length : bits - position;
    return static_cast<T>(static_cast<s64>(static_cast<u64>(rest) << (64 - there)) >> (64 - there));
  }
  return rest & static_cast<T>((u64(1) << length) - 1);
}

template <class T>
T magnitude(T a) {
  return a >> (8 * sizeof(T) - 1) ? T(0) - a : a;
}

s32 saturated(s64 a) { return static_cast<s32>(a > INT32_MAX ? INT32_MAX : a < INT32_MIN ? INT32_MIN : a); }

u32 reversed(u32 a) {
  a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
  a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
  a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(a);
}

// Place of the highest bit that isn't the sign's, all ones if there is none.
u32 highest(u64 a) { return a ? 63 - static_cast<u32>(__builtin_clzll(a)) : ~u32(0); }

// Each nibble of the selector takes a byte of b:a, or with its upper bit that byte's sign.
u32 permute(u32 a, u32 b, u32 selector) {
  const u64 both = u64(b) << 32 | a;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 chosen = selector >> (4 * i) & 15;
    const u32 byte = static_cast<u32>(both >> (8 * (chosen & 7))) & 0xff;
    result |= (chosen & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << (8 * i);
  }
  return result;
}

u32 logic(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (u32 i = 0; i < 8; ++i) {
    const u32 here = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    result |= table >> i & 1 ? here : 0;
  }
  return result;
}

u32 shifted_pair(u32 a, u32 b, u32 by) { return static_cast<u32>((u64(b) << 32 | a) >> by); }

s32 signed16(u32 a) { return static_cast<int16_t>(a); }

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
    // A 16-bit register is a word whose upper half is zero.
    {"and.b16", "h=hh", each<[](u32 a, u32 b) { return a & b & 0xffff; }>},
    {"or.b16", "h=hh", each<[](u32 a, u32 b) { return (a | b) & 0xffff; }>},
    {"shl.b16", "h=hw", each<[](u32 a, u32 by) { return by < 16 ? (a << by) & 0xffff : 0; }>},
    {"add.s16", "h=hh", each<[](u32 a, u32 b) { return (a + b) & 0xffff; }>},
    {"sub.s16", "h=hh", each<[](u32 a, u32 b) { return (a - b) & 0xffff; }>},
    {"mul.lo.s16", "h=hh", each<[](u32 a, u32 b) { return (a * b) & 0xffff; }>},
    {"mul.wide.u16", "w=hh", each<[](u32 a, u32 b) { return (a & 0xffff) * (b & 0xffff); }>},
    {"mul.lo.u32", "w=ww", each<[](u32 a, u32 b) { return a * b; }>},
    {"mul.lo.u64", "q=qq", each<[](u64 a, u64 b) { return a * b; }>},
    {"mul.hi.s64", "q=qq", each<[](s64 a, s64 b) { return upper(static_cast<unsigned __int128>(__int128(a) * b)); }>},
    {"mul.hi.u64", "q=qq", each<[](u64 a, u64 b) { return upper(static_cast<unsigned __int128>(a) * b); }>},
    {"mad.lo.u32", "w=www", each<[](u32 a, u32 b, u32 c) { return a * b + c; }>},
    {"mad.lo.u64", "q=qqq", each<[](u64 a, u64 b, u64 c) { return a * b + c; }>},
    {"mad.hi.s32", "w=www", each<[](s32 a, s32 b, u32 c) { return high(s64(a) * b) + c; }>},
    {"mad.hi.u32", "w=www", each<[](u32 a, u32 b, u32 c) { return high(u64(a) * b) + c; }>},
    {"mad.wide.s32", "q=wwq", each<[](s32 a, s32 b, u64 c) { return u64(s64(a) * b) + c; }>},
    {"mad.wide.u32", "q=wwq", each<[](u32 a, u32 b, u64 c) { return u64(a) * b + c; }>},
    {"rem.s64", "q=qq", each<[](s64 a, s64 b) { return remainder(a, b); }>},
    {"rem.u64", "q=qq", each<[](u64 a, u64 b) { return remainder(a, b); }>},
    {"min.u64", "q=qq", each<[](u64 a, u64 b) { return a < b ? a : b; }>},
    {"max.u64", "q=qq", each<[](u64 a, u64 b) { return b < a ? a : b; }>},
    {"abs.s32", "w=w", each<[](u32 a) { return magnitude(a); }>},
    {"abs.s64", "q=q", each<[](u64 a) { return magnitude(a); }>},
    {"add.sat.s32", "w=ww", each<[](s32 a, s32 b) { return saturated(s64(a) + b); }>},
    {"sub.sat.s32", "w=ww", each<[](s32 a, s32 b) { return saturated(s64(a) - b); }>},
    {"clz.b32", "w=w", each<[](u32 a) { return u32(a ? __builtin_clz(a) : 32); }>},
    {"clz.b64", "w=q", each<[](u64 a) { return u32(a ? __builtin_clzll(a) : 64); }>},
    {"popc.b32", "w=w", each<[](u32 a) { return u32(__builtin_popcountll(a)); }>},
    {"popc.b64", "w=q", each<[](u64 a) { return u32(__builtin_popcountll(a)); }>},
    {"brev.b32", "w=w", each<[](u32 a) { return reversed(a); }>},
    {"brev.b64", "q=q", each<[](u64 a) { return u64(reversed(u32(a))) << 32 | reversed(high(a)); }>},
    {"bfind.u32", "w=w", each<[](u32 a) { return highest(a); }>},
    {"bfind.s32", "w=w", each<[](s32 a) { return highest(a < 0 ? u32(~a) : u32(a)); }>},
    {"bfind.u64", "w=q", each<[](u64 a) { return highest(a); }>},
    {"bfind.s64", "w=q", each<[](s64 a) { return highest(a < 0 ? u64(~a) : u64(a)); }>},
    {"bfe.u32", "w=www", each<[](u32 a, u32 position, u32 length) { return extract_bits(a, position, length); }>},
    {"bfe.s32", "w=www", each<[](s32 a, u32 position, u32 length) { return extract_bits(a, position, length); }>},
    {"bfe.u64", "q=qww", each<[](u64 a, u32 position, u32 length) { return extract_bits(a, position, length); }>},
    {"bfe.s64", "q=qww", each<[](s64 a, u32 position, u32 length) { return extract_bits(a, position, length); }>},
    {"prmt.b32", "w=www", each<[](u32 a, u32 b, u32 selector) { return permute(a, b, selector); }>},
    {"lop3.b32", "w=wwww", each<[](u32 a, u32 b, u32 c, u32 table) { return logic(a, b, c, table); }>},
    {"shf.l.wrap.b32", "w=www", each<[](u32 a, u32 b, u32 by) { return high((u64(b) << 32 | a) << (by & 31)); }>},
    {"shf.l.clamp.b32", "w=www",
     each<[](u32 a, u32 b, u32 by) { return high((u64(b) << 32 | a) << (by < 32 ? by : 32)); }>},
    {"shf.r.wrap.b32", "w=www", each<[](u32 a, u32 b, u32 by) { return shifted_pair(a, b, by & 31); }>},
    {"shf.r.clamp.b32", "w=www", each<[](u32 a, u32 b, u32 by) { return shifted_pair(a, b, by < 32 ? by : 32); }>},
    {"add.u16", "h=hh", each<[](u32 a, u32 b) { return (a + b) & 0xffff; }>},
    {"sub.u16", "h=hh", each<[](u32 a, u32 b) { return (a - b) & 0xffff; }>},
    {"mul.lo.u16", "h=hh", each<[](u32 a, u32 b) { return (a * b) & 0xffff; }>},
    {"mul.wide.s16", "w=hh", each<[](u32 a, u32 b) { return signed16(a) * signed16(b); }>},
    {"min.s16", "h=hh", each<[](u32 a, u32 b) { return (signed16(a) < signed16(b) ? a : b) & 0xffff; }>},
    {"max.s16", "h=hh", each<[](u32 a, u32 b) { return (signed16(b) < signed16(a) ? a : b) & 0xffff; }>},
    {"min.u16", "h=hh", each<[](u32 a, u32 b) { return (a & 0xffff) < (b & 0xffff) ? a & 0xffff : b & 0xffff; }>},
    {"max.u16", "h=hh", each<[](u32 a, u32 b) { return (b & 0xffff) < (a & 0xffff) ? a & 0xffff : b & 0xffff; }>},
    {"xor.b16", "h=hh", each<[](u32 a, u32 b) { return (a ^ b) & 0xffff; }>},
    {"not.b16", "h=h", each<[](u32 a) { return ~a & 0xffff; }>},
    {"shr.u16", "h=hw", each<[](u32 a, u32 by) { return right(a & 0xffff, by); }>},
    {"shr.s16", "h=hw", each<[](u32 a, u32 by) { return u32(right(signed16(a), by)) & 0xffff; }>},
    {"bfi.b64", "q=qqww",
     each<[](u64 a, u64 b, u32 position, u32 length) { return insert_bits(a, b, position, length); }>},
    {"bfi.b32", "w=wwww",
     each<[](u32 a, u32 b, u32 position, u32 length) { return insert_bits(a, b, position, length); }>},
};

}  // namespace

FormList integer_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
