#include <algorithm>
#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

// Runs the instruction on %r0, a word a lane, and %p0, its bit 0, with all lanes; each lane's %r1 and %p1 after it.
std::vector<uint32_t> decided(const std::string& instruction, const std::vector<uint32_t>& in) {
  return run_body(
      "mul.wide.u32 %rd0, %tid, 4; add.s64 %rd1, %in, %rd0; ld.global.u32 %r0, [%rd1];\n"
      "and.b32 %r2, %r0, 1; setp.ne.b32 %p0, %r2, 0; mov.pred %p1, 0; mov.u32 %r1, 0;\n" +
          instruction +
          "\nselp.u32 %r4, 1, 0, %p1; shl.b64 %rd0, %rd0, 1; add.s64 %rd1, %out, %rd0; st.global.v2.u32 [%rd1], {%r1, %r4};",
      in, 64);
}

}  // namespace

TEST_CASE("votes and ballots see the predicate of every lane") {
  std::vector<uint32_t> none(32, 2), all(32, 3), some = none;
  some[5] = some[31] = 1;
  const auto predicate = [](const std::string& vote, const std::vector<uint32_t>& in) {
    const auto out = decided("vote.sync." + vote + ".pred %p1, %p0, -1;", in);
    for (size_t lane = 1; lane < 32; ++lane) CHECK(out[2 * lane + 1] == out[1]);
    return out[1] == 1;
  };
  CHECK(predicate("all", all));
  CHECK(!predicate("all", some));
  CHECK(predicate("any", some));
  CHECK(!predicate("any", none));
  CHECK(predicate("uni", all));
  CHECK(predicate("uni", none));
  CHECK(!predicate("uni", some));
  CHECK(decided("vote.sync.ballot.b32 %r1, %p0, -1;", some)[14] == 0x80000020);
  CHECK(decided("activemask.b32 %r1;", some)[0] == 0xffffffff);
}

TEST_CASE("a reduction over the warp gives every lane the result") {
  const auto in = random_words(32, 7);
  const auto reduced = [&](const std::string& form) {
    const auto out = decided("redux.sync." + form + " %r1, %r0, -1;", in);
    for (size_t lane = 1; lane < 32; ++lane) CHECK(out[2 * lane] == out[0]);
    return out[0];
  };
  const auto less = [](uint32_t a, uint32_t b) { return static_cast<int32_t>(a) < static_cast<int32_t>(b); };
  uint32_t sum = 0, both = ~0u, either = 0, odd = 0;
  for (const uint32_t word : in) sum += word, both &= word, either |= word, odd ^= word;
  CHECK(reduced("add.u32") == sum);
  CHECK(reduced("add.s32") == sum);
  CHECK(reduced("and.b32") == both);
  CHECK(reduced("or.b32") == either);
  CHECK(reduced("xor.b32") == odd);
  CHECK(reduced("min.u32") == std::ranges::min(in));
  CHECK(reduced("max.u32") == std::ranges::max(in));
  CHECK(reduced("min.s32") == std::ranges::min(in, less));
  CHECK(reduced("max.s32") == std::ranges::max(in, less));
}

TEST_CASE("lanes with one value find each other; one lane is elected") {
  std::vector<uint32_t> in(32);
  for (uint32_t lane = 0; lane < 32; ++lane) in[lane] = lane % 3;
  const auto same = decided("match.any.sync.b32 %r1, %r0, -1;", in);
  CHECK(same[0] == 0x49249249);
  CHECK(same[2] == 0x92492492);
  CHECK(same[4] == 0x24924924);
  const auto differ = decided("match.all.sync.b32 %r1|%p1, %r0, -1;", in);
  CHECK(differ[0] == 0);
  CHECK(differ[1] == 0);
  const auto equal = decided("match.all.sync.b32 %r1|%p1, %r0, -1;", std::vector<uint32_t>(32, 9));
  CHECK(equal[0] == 0xffffffff);
  CHECK(equal[1] == 1);
  const auto elected = decided("elect.sync %r1|%p1, -1;", in);
  for (size_t lane = 0; lane < 32; ++lane) {
    CHECK(elected[2 * lane] == 0);
    CHECK(elected[2 * lane + 1] == (lane == 0));
  }
}

TEST_CASE("lanes that a vote names must all come") {
  using Catch::Contains;
  const std::string half = "setp.lt.u32 %p0, %tid, 16;\n@%p0 ";
  for (const std::string form : {"vote.sync.any.pred %p1, %p0, -1;", "vote.sync.ballot.b32 %r1, %p0, -1;",
                                 "redux.sync.add.u32 %r1, %tid, -1;", "match.any.sync.b32 %r1, %tid, -1;",
                                 "match.all.sync.b32 %r1|%p1, %tid, -1;", "elect.sync %r1|%p1, -1;"}) {
    CAPTURE(form);
    CHECK_THAT(fault_of(half + form), Contains("line 11: converged") && Contains("expected 0xffffffff"));
  }
}

}  // namespace stratum::emulator
