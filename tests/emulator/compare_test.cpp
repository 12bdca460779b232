#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

using A = Arguments;

template <class T>
T as(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return as_float(bits);
  } else {
    return static_cast<T>(bits);
  }
}

template <class T>
void check_comparisons(const std::string& type, const std::vector<A>& values) {
  const std::string operands = "." + type + (sizeof(T) == 8 ? " %q, %w0, %w1;" : " %q, %a0, %a1;");
  check_instruction("setp.lt" + operands, values, [](const A& a) { return as<T>(a[0]) < as<T>(a[1]); });
  check_instruction("setp.le" + operands, values, [](const A& a) { return as<T>(a[0]) <= as<T>(a[1]); });
  check_instruction("setp.gt" + operands, values, [](const A& a) { return as<T>(a[0]) > as<T>(a[1]); });
  check_instruction("setp.ge" + operands, values, [](const A& a) { return as<T>(a[0]) >= as<T>(a[1]); });
  check_instruction("setp.eq" + operands, values, [](const A& a) { return as<T>(a[0]) == as<T>(a[1]); });
}

template <class T>
void check_difference(const std::string& type) {
  const std::string operands = "." + type + (sizeof(T) == 8 ? " %q, %w0, %w1;" : " %q, %a0, %a1;");
  check_instruction("setp.ne" + operands, integers(), [](const A& a) { return as<T>(a[0]) != as<T>(a[1]); });
}

}  // namespace

TEST_CASE("comparisons of integers") {
  check_comparisons<int32_t>("s32", integers());
  check_comparisons<uint32_t>("u32", integers());
  check_comparisons<int64_t>("s64", integers());
  check_comparisons<uint64_t>("u64", integers());
  check_difference<int32_t>("s32");
  check_difference<uint32_t>("u32");
  check_difference<int64_t>("s64");
  check_difference<uint64_t>("u64");
  check_difference<uint32_t>("b32");
  check_difference<uint64_t>("b64");
  check_instruction("setp.eq.b32 %q, %a0, %a1;", integers(),
                    [](const A& a) { return as<uint32_t>(a[0]) == as<uint32_t>(a[1]); });
  check_instruction("setp.eq.b64 %q, %w0, %w1;", integers(), [](const A& a) { return a[0] == a[1]; });
}

TEST_CASE("comparisons of floats are false with NaN") {
  check_comparisons<float>("f32", floats());
  check_instruction("setp.ne.f32 %q, %a0, %a1;", floats(), [](const A& a) {
    const float x = as_float(a[0]), y = as_float(a[1]);
    return x == x && y == y && x != y;
  });
}

TEST_CASE("selp takes the first operand where the predicate is true") {
  for (const std::string type : {"b32", "u32", "s32", "f32"}) {
    check_instruction("selp." + type + " %d, %a0, %a1, %c2;", integers(),
                      [](const A& a) { return (a[2] & 1 ? a[0] : a[1]) & 0xffffffff; });
  }
  for (const std::string type : {"b64", "u64", "s64"}) {
    check_instruction("selp." + type + " %e, %w0, %w1, %c2;", integers(),
                      [](const A& a) { return a[2] & 1 ? a[0] : a[1]; });
  }
  check_instruction("selp.f32 %d, 0fFF800000, %a1, %c2;", integers(),
                    [](const A& a) { return a[2] & 1 ? 0xff800000 : a[1] & 0xffffffff; });
}

TEST_CASE("logic on predicates") {
  check_instruction("and.pred %q, %c0, %c1;", integers(), [](const A& a) { return a[0] & a[1] & 1; });
  check_instruction("or.pred %q, %c0, %c1;", integers(), [](const A& a) { return (a[0] | a[1]) & 1; });
  check_instruction("xor.pred %q, %c0, %c1;", integers(), [](const A& a) { return (a[0] ^ a[1]) & 1; });
  check_instruction("not.pred %q, %c0;", integers(), [](const A& a) { return ~a[0] & 1; });
  check_instruction("mov.pred %q, %c0;", integers(), [](const A& a) { return a[0] & 1; });
  check_instruction("mov.pred %q, -1;", integers(), [](const A&) { return 1; });
}

}  // namespace stratum::emulator
