#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

const std::string kStore = "mul.wide.u32 %rd0, %tid, 4; add.s64 %rd0, %out, %rd0; st.global.u32 [%rd0], %r0;\n";

}  // namespace

TEST_CASE("both sides of a branch run, then the warp is whole again") {
  const auto out = run_body(
      "setp.lt.u32 %p0, %tid, 10; @%p0 bra SMALL;\n"
      "mov.u32 %r0, 7; bra.uni JOIN;\n"
      "SMALL: add.s32 %r0, %tid, 100;\n"
      "JOIN: bar.warp.sync -1; bar.sync 0;\n" +
          kStore,
      {}, 32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 10 ? i + 100 : 7));
}

TEST_CASE("branches in branches") {
  const auto out = run_body(
      "and.b32 %r1, %tid, 1; and.b32 %r2, %tid, 2; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r2, 0;\n"
      "mov.u32 %r0, 0; @!%p0 bra ODD;\n"
      "@%p1 bra FOURS; add.s32 %r0, %r0, 2; bra MET; FOURS: add.s32 %r0, %r0, 1; MET: add.s32 %r0, %r0, 10;\n"
      "bra JOIN;\n"
      "ODD: @!%p1 add.s32 %r0, %r0, 5; JOIN: bar.warp.sync -1; add.s32 %r0, %r0, 100;\n" +
          kStore,
      {}, 32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i % 2 ? (i & 2 ? 105 : 100) : (i & 2 ? 112 : 111)));
}

TEST_CASE("lanes leave a loop one by one and wait for the last") {
  // Steps of the Collatz sequence.
  const auto out = run_body(
      "add.s32 %r1, %tid, 1; mov.u32 %r0, 0;\n"
      "LOOP: setp.eq.s32 %p0, %r1, 1; @%p0 bra DONE;\n"
      "and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; @%p1 bra EVEN;\n"
      "mad.lo.s32 %r1, %r1, 3, 1; bra NEXT;\n"
      "EVEN: shr.u32 %r1, %r1, 1;\n"
      "NEXT: add.s32 %r0, %r0, 1; bra LOOP;\n"
      "DONE: bar.warp.sync -1;\n" +
          kStore,
      {}, 64, {.threads = 64});
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t steps = 0;
    for (uint32_t n = i + 1; n != 1; n = n % 2 ? 3 * n + 1 : n / 2) ++steps;
    CHECK(out[i] == steps);
  }
}

TEST_CASE("loops in loops with different counts") {
  const auto out = run_body(
      "mov.u32 %r0, 0; mov.u32 %r1, 0;\n"
      "OUTER: setp.ge.u32 %p0, %r1, %tid; @%p0 bra DONE; mov.u32 %r2, 0;\n"
      "INNER: add.s32 %r0, %r0, 1; add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra INNER;\n"
      "add.s32 %r1, %r1, 1; bra OUTER;\n"
      "DONE: bar.warp.sync -1;\n" +
          kStore,
      {}, 32);
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t count = 0;
    for (uint32_t a = 0; a < i; ++a) count += std::max(a, 1u);
    CHECK(out[i] == count);
  }
}

TEST_CASE("lanes return in a branch and the others go on") {
  const auto out = run_body(
      "mov.u32 %r0, 1; setp.lt.u32 %p0, %tid, 8; @%p0 bra EARLY;\n"
      "setp.gt.u32 %p1, %tid, 27; @%p1 ret;\n"
      "mov.u32 %r0, 2; bra JOIN; EARLY: ret;\n"
      "JOIN: bar.warp.sync -1;\n" +
          kStore,
      {}, 32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i >= 8 && i <= 27 ? 2 : 0));
}

TEST_CASE("exit is as ret") {
  const auto out =
      run_body("mov.u32 %r0, 1; setp.lt.u32 %p0, %tid, 8; @%p0 exit; nanosleep.u32 20; membar.sys;\n" + kStore, {}, 32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 8 ? 0 : 1));
}

TEST_CASE("what needs the whole warp is a fault on one side of a branch") {
  using Catch::Contains;
  CHECK_THAT(
      fault_of("setp.lt.u32 %p0, %tid, 16; @%p0 bra JOIN;\nbar.sync 0;\nJOIN: ret;"),
      Contains(
          "test, PTX line 11: converged: lanes 0xffff0000 execute it, expected 0xffffffff (block 0, 0, 0, warp 0)"));
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 16;\n@%p0 bra.uni JOIN; mov.u32 %r0, 1; JOIN: ret;"),
             Contains("line 11"));
}

TEST_CASE("a kernel may end without ret") {
  const auto out = run_body("setp.lt.u32 %p0, %tid, 3; mov.u32 %r0, 4;\n" + kStore + "@%p0 bra END; END:", {}, 32);
  CHECK(out == std::vector<uint32_t>(32, 4));
}

}  // namespace stratum::emulator
