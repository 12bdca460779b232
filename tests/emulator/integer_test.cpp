#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

using s32 = int32_t;
using u32 = uint32_t;
using s64 = int64_t;
using u64 = uint64_t;
using A = Arguments;
__extension__ typedef __int128 s128;

u64 low(u64 x) { return x & 0xffffffff; }
s64 sign(u64 x) { return static_cast<s32>(x); }  // of the low word

}  // namespace

TEST_CASE("sums and products of integers wrap") {
  const auto values = integers();
  for (const std::string type : {"s32", "u32"}) {
    check_instruction("add." + type + " %d, %a0, %a1;", values, [](const A& a) { return low(a[0] + a[1]); });
    check_instruction("sub." + type + " %d, %a0, %a1;", values, [](const A& a) { return low(a[0] - a[1]); });
  }
  for (const std::string type : {"s64", "u64"}) {
    check_instruction("add." + type + " %e, %w0, %w1;", values, [](const A& a) { return a[0] + a[1]; });
    check_instruction("sub." + type + " %e, %w0, %w1;", values, [](const A& a) { return a[0] - a[1]; });
  }
  check_instruction("neg.s32 %d, %a0;", values, [](const A& a) { return low(-a[0]); });
  check_instruction("neg.s64 %e, %w0;", values, [](const A& a) { return -a[0]; });
  check_instruction("mul.lo.s32 %d, %a0, %a1;", values, [](const A& a) { return low(a[0] * a[1]); });
  check_instruction("mul.lo.s64 %e, %w0, %w1;", values, [](const A& a) { return a[0] * a[1]; });
  check_instruction("mul.hi.s32 %d, %a0, %a1;", values,
                    [](const A& a) { return low(static_cast<u64>(sign(a[0]) * sign(a[1])) >> 32); });
  check_instruction("mul.hi.u32 %d, %a0, %a1;", values, [](const A& a) { return low(a[0]) * low(a[1]) >> 32; });
  check_instruction("mul.wide.s32 %e, %a0, %a1;", values,
                    [](const A& a) { return static_cast<u64>(sign(a[0]) * sign(a[1])); });
  check_instruction("mul.wide.u32 %e, %a0, %a1;", values, [](const A& a) { return low(a[0]) * low(a[1]); });
  check_instruction("mad.lo.s32 %d, %a0, %a1, %a2;", values, [](const A& a) { return low(a[0] * a[1] + a[2]); });
  check_instruction("mad.lo.s64 %e, %w0, %w1, %w2;", values, [](const A& a) { return a[0] * a[1] + a[2]; });
}

TEST_CASE("halves of words are numbers of 16 bits") {
  const auto words = random_words(3 * 32);
  const auto check = [&](const std::string& instructions, auto expected) {
    const std::string body =
        "mul.lo.s32 %r0, %tid, 12; cvt.u64.u32 %rd0, %r0; add.s64 %rd1, %in, %rd0;\n"
        "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; cvt.u16.u32 %h0, %r1; cvt.u16.u32 %h1, %r2;\n" +
        instructions + "\nmul.lo.s32 %r0, %tid, 4; cvt.u64.u32 %rd0, %r0; add.s64 %rd1, %out, %rd0;\n" +
        "st.global.u32 [%rd1], %r3;";
    const std::vector<uint32_t> results = run_body(body, words, 32);
    for (size_t lane = 0; lane < 32; ++lane) {
      INFO(instructions);
      REQUIRE(results[lane] == expected(words[3 * lane] & 0xffffu, words[3 * lane + 1] & 0xffffu));
    }
  };
  using u32 = uint32_t;
  check("mul.wide.u16 %r3, %h0, %h1;", [](u32 x, u32 y) { return x * y; });
  check("mul.wide.u16 %r3, %h0, -21845;", [](u32 x, u32) { return x * 0xaaabu; });
  check("mul.lo.s16 %h2, %h0, %h1; cvt.u32.u16 %r3, %h2;", [](u32 x, u32 y) { return x * y & 0xffffu; });
  check("sub.s16 %h2, %h0, %h1; cvt.u32.u16 %r3, %h2;", [](u32 x, u32 y) { return (x - y) & 0xffffu; });
  check("add.s16 %h2, %h0, %h1; cvt.u32.u16 %r3, %h2;", [](u32 x, u32 y) { return (x + y) & 0xffffu; });
  check("and.b16 %h2, %h0, %h1; cvt.u32.u16 %r3, %h2;", [](u32 x, u32 y) { return x & y; });
  check("or.b16 %h2, %h0, %h1; cvt.u32.u16 %r3, %h2;", [](u32 x, u32 y) { return x | y; });
  check("mov.u16 %h2, -2; mov.b32 %r3, {%h2, %h0};", [](u32 x, u32) { return x << 16 | 0xfffe; });
  check("shl.b16 %h2, %h0, 4; cvt.u32.u16 %r3, %h2;", [](u32 x, u32) { return x << 4 & 0xffffu; });
}

TEST_CASE("immediates are operands") {
  const auto values = integers();
  check_instruction("add.s32 %d, %a0, -5;", values, [](const A& a) { return low(a[0] - 5); });
  check_instruction("add.s64 %e, %w0, -5;", values, [](const A& a) { return a[0] - 5; });
  check_instruction("mul.wide.u32 %e, %a0, -5;", values, [](const A& a) { return low(a[0]) * 0xfffffffbu; });
  check_instruction("mad.lo.s32 %d, %a0, 0x10, -1;", values, [](const A& a) { return low(a[0] * 16 - 1); });
}

TEST_CASE("quotients round to zero; by zero they are what the hardware gives") {
  const auto values = integers();
  check_instruction("div.s32 %d, %a0, %a1;", values, [](const A& a) {
    return sign(a[1]) == 0 ? low(~u64{0}) : low(static_cast<u64>(sign(a[0]) / sign(a[1])));
  });
  check_instruction("div.u32 %d, %a0, %a1;", values,
                    [](const A& a) { return low(a[1]) == 0 ? low(~u64{0}) : low(a[0]) / low(a[1]); });
  check_instruction("div.s64 %e, %w0, %w1;", values, [](const A& a) {
    return a[1] == 0 ? ~u64{0} : static_cast<u64>(s128{static_cast<s64>(a[0])} / static_cast<s64>(a[1]));
  });
  check_instruction("div.u64 %e, %w0, %w1;", values, [](const A& a) { return a[1] == 0 ? ~u64{0} : a[0] / a[1]; });
  check_instruction("rem.u32 %d, %a0, %a1;", values,
                    [](const A& a) { return low(a[1]) == 0 ? low(a[0]) : low(a[0]) % low(a[1]); });
  check_instruction("rem.s32 %d, %a0, %a1;", values, [](const A& a) {
    return sign(a[1]) == 0 ? low(a[0]) : low(static_cast<u64>(sign(a[0]) % sign(a[1])));
  });
}

TEST_CASE("the smaller and the larger of two integers") {
  const auto values = integers();
  check_instruction("min.s32 %d, %a0, %a1;", values, [](const A& a) { return low(std::min(sign(a[0]), sign(a[1]))); });
  check_instruction("max.s32 %d, %a0, %a1;", values, [](const A& a) { return low(std::max(sign(a[0]), sign(a[1]))); });
  check_instruction("min.u32 %d, %a0, %a1;", values, [](const A& a) { return std::min(low(a[0]), low(a[1])); });
  check_instruction("max.u32 %d, %a0, %a1;", values, [](const A& a) { return std::max(low(a[0]), low(a[1])); });
  check_instruction("min.s64 %e, %w0, %w1;", values, [](const A& a) { return u64(std::min(s64(a[0]), s64(a[1]))); });
  check_instruction("max.s64 %e, %w0, %w1;", values, [](const A& a) { return u64(std::max(s64(a[0]), s64(a[1]))); });
}

TEST_CASE("bitwise logic") {
  const auto values = integers();
  check_instruction("and.b32 %d, %a0, %a1;", values, [](const A& a) { return low(a[0] & a[1]); });
  check_instruction("or.b32 %d, %a0, %a1;", values, [](const A& a) { return low(a[0] | a[1]); });
  check_instruction("xor.b32 %d, %a0, %a1;", values, [](const A& a) { return low(a[0] ^ a[1]); });
  check_instruction("not.b32 %d, %a0;", values, [](const A& a) { return low(~a[0]); });
  check_instruction("and.b64 %e, %w0, %w1;", values, [](const A& a) { return a[0] & a[1]; });
  check_instruction("or.b64 %e, %w0, %w1;", values, [](const A& a) { return a[0] | a[1]; });
  check_instruction("xor.b64 %e, %w0, %w1;", values, [](const A& a) { return a[0] ^ a[1]; });
  check_instruction("not.b64 %e, %w0;", values, [](const A& a) { return ~a[0]; });
}

TEST_CASE("a shift by the width or more leaves zeros or signs") {
  const auto values = integers();
  const auto by = [](const A& a, u64 most) { return std::min(low(a[1]), most); };
  check_instruction("shl.b32 %d, %a0, %a1;", values,
                    [&](const A& a) { return by(a, 32) == 32 ? 0 : low(a[0] << by(a, 32)); });
  check_instruction("shr.u32 %d, %a0, %a1;", values, [&](const A& a) { return low(a[0]) >> by(a, 32); });
  check_instruction("shr.s32 %d, %a0, %a1;", values, [&](const A& a) { return low(sign(a[0]) >> by(a, 31)); });
  check_instruction("shl.b64 %e, %w0, %a1;", values,
                    [&](const A& a) { return by(a, 64) == 64 ? 0 : a[0] << by(a, 63); });
  check_instruction("shr.u64 %e, %w0, %a1;", values,
                    [&](const A& a) { return by(a, 64) == 64 ? 0 : a[0] >> by(a, 63); });
  check_instruction("shr.s64 %e, %w0, %a1;", values, [&](const A& a) { return u64(s64(a[0]) >> by(a, 63)); });
}

TEST_CASE("bfi puts a field into a word bit by bit") {
  check_instruction("bfi.b32 %d, %a0, %a1, %a2, %a3;", integers(), [](const A& a) {
    const u64 position = a[2] & 0xff, length = a[3] & 0xff;
    u64 result = low(a[1]);
    for (u64 i = 0; i < length && position + i < 32; ++i) {
      const u64 bit = i < 32 ? a[0] >> i & 1 : 0;
      result = (result & ~(u64{1} << (position + i))) | bit << (position + i);
    }
    return result;
  });
}

}  // namespace stratum::emulator
