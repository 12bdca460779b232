#include <algorithm>
#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

using Catch::Contains;

const std::string kShared = "mov.u32 %r8, dynamic; shl.b32 %r9, %tid, 2; add.s32 %r9, %r9, %r8;\n";
const std::string kStore = "mul.wide.u32 %rd0, %tid, 4; add.s64 %rd0, %out, %rd0; st.global.u32 [%rd0], %r0;\n";

}  // namespace

TEST_CASE("a barrier lets every warp see what the others wrote") {
  // Each thread adds the value of the thread of the next warp, ten times.
  const auto out =
      run_body(kShared +
                   "mov.u32 %r0, %tid; add.s32 %r1, %tid, 32; rem.u32 %r1, %r1, 128; shl.b32 %r1, %r1, 2;\n"
                   "add.s32 %r1, %r1, %r8; mov.u32 %r2, 0;\n"
                   "LOOP: st.shared.u32 [%r9], %r0; bar.sync 0; ld.shared.u32 %r3, [%r1]; bar.sync 0;\n"
                   "add.s32 %r0, %r0, %r3; add.s32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, 10; @%p0 bra LOOP;\n" +
                   kStore,
               {}, 128, {.threads = 128, .shared_bytes = 512});
  std::vector<uint32_t> expected(128);
  for (uint32_t i = 0; i < 128; ++i) expected[i] = i;
  for (int step = 0; step < 10; ++step) {
    const auto before = expected;
    for (uint32_t i = 0; i < 128; ++i) expected[i] += before[(i + 32) % 128];
  }
  CHECK(out == expected);
}

TEST_CASE("named barriers hand a value from one pair of warps to the other") {
  // Warps 0 and 1 fill, warps 2 and 3 take; barrier 1: full, barrier 2: empty.
  const auto out =
      run_body(kShared +
                   "setp.ge.u32 %p0, %tid, 64; mov.u32 %r2, 0; mov.u32 %r0, 0; mov.u32 %r5, 2; @%p0 bra TAKE;\n"
                   "FILL: bar.sync %r5, 128; add.s32 %r1, %tid, %r2; st.shared.u32 [%r9], %r1; bar.arrive 1, 128;\n"
                   "add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5; @%p1 bra FILL; bra END;\n"
                   "TAKE: bar.arrive %r5, 128; bar.sync 1, 128; ld.shared.u32 %r1, [%r9+-256]; add.s32 %r0, %r0, %r1;\n"
                   "add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5; @%p1 bra TAKE;\n"
                   "END:\n" +
                   kStore,
               {}, 128, {.threads = 128, .shared_bytes = 512});
  for (uint32_t i = 0; i < 64; ++i) {
    CHECK(out[i] == 0);
    CHECK(out[64 + i] == 5 * i + 10);
  }
}

TEST_CASE("a barrier of every thread does not wait for warps that have ended") {
  const auto out = run_body("setp.lt.u32 %p0, %tid, 64; @%p0 ret; mov.u32 %r0, 1; bar.sync 0;\n" + kStore, {}, 128,
                            {.threads = 128});
  for (uint32_t i = 0; i < 128; ++i) CHECK(out[i] == (i < 64 ? 0 : 1));
  // The warp that all wait for ends last.
  const auto late = run_body("setp.ge.u32 %p0, %tid, 96; @%p0 ret; mov.u32 %r0, 1; bar.sync 0;\n" + kStore, {}, 128,
                             {.threads = 128});
  for (uint32_t i = 0; i < 128; ++i) CHECK(late[i] == (i < 96 ? 1 : 0));
}

TEST_CASE("a deadlock says who waits where and for what") {
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 32; @%p0 bra FIRST;\nbar.sync 3, 96; ret;\nFIRST: bar.sync 4, 64;",
                      {.threads = 96}),
             Contains("test, PTX line 12: deadlock: warp 0 waits at line 12 for barrier 4, 32 of 64 threads arrived") &&
                 Contains("; warp 1 waits at line 11 for barrier 3, 64 of 96 threads arrived") &&
                 Contains("; warp 2 waits"));
}

TEST_CASE("barriers that can't work are faults") {
  CHECK_THAT(fault_of("bar.sync 16;"), Contains("barrier 16: expected 0 to 15"));
  CHECK_THAT(fault_of("bar.sync %tid;"), Contains("the barrier's number differs between lanes"));
  CHECK_THAT(fault_of("bar.sync 1, 40;"), Contains("40 threads: expected a multiple of 32"));
  CHECK_THAT(fault_of("mov.u32 %r0, 0; bar.sync 1, %r0;"), Contains("0 threads"));
  CHECK_THAT(
      fault_of("setp.lt.u32 %p0, %tid, 32; @%p0 bra A; bar.sync 1, 96; ret; A: bar.sync 1, 64;", {.threads = 96}),
      Contains("barrier 1 for 96 threads: earlier arrivals were for 64 threads"));
}

TEST_CASE("a warp that comes twice to a barrier stands in for another one") {
  const std::string begin = "setp.lt.u32 %p0, %tid, 32; @%p0 bra TELL; bar.sync 1, 96; ret; TELL: bar.arrive 1, 96;\n";
  CHECK(fault_of(begin, {.threads = 96}) == "");
  CHECK_THAT(fault_of(begin + "bar.arrive 1, 96;", {.threads = 64}),
             Contains("line 11: barrier: barrier 1: warp 0 comes a second time, 32 of 96 threads have arrived"));
}

TEST_CASE("arrivals for which nobody comes") {
  CHECK_THAT(fault_of("bar.arrive 1, 64;\nret;", {.threads = 32}),
             Contains("line 11: barrier: barrier 1: the block ends, and 32 of 64 threads have arrived"));
  // The barrier completes, and somebody arrives once more.
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 32; @%p0 bra TELL; bar.sync 1, 64; bar.sync 2, 64; ret;\n"
                      "TELL: bar.arrive 1, 64; bar.sync 2, 64; bar.arrive 1, 64;",
                      {.threads = 64}),
             Contains("barrier 1: the block ends, and 32 of 64 threads have arrived"));
}

TEST_CASE("a barrier tells whether a predicate holds for one of its threads, for all, or for how many") {
  // Of warps 0 and 1 at barrier 1, and of the other two at barrier 2: threads below a limit.
  for (const uint32_t limit : {0u, 1u, 33u, 64u, 65u, 127u, 128u}) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      Setup setup{.threads = 128};
      setup.options = {.checks = true, .seed = seed};
      const auto out =
          run_body("shr.u32 %r1, %tid, 6; add.s32 %r1, %r1, 1; setp.lt.u32 %p0, %tid, " + std::to_string(limit) +
                       ";\n"
                       "barrier.cta.red.or.pred %p1, %r1, 64, %p0;\n"
                       "barrier.cta.red.and.pred %p2, %r1, 64, %p0;\n"
                       "barrier.cta.red.popc.u32 %r2, %r1, 64, %p0;\n"
                       "selp.u32 %r3, 1000, 0, %p1; selp.u32 %r4, 2000, 0, %p2;\n"
                       "add.s32 %r0, %r2, %r3; add.s32 %r0, %r0, %r4;\n" +
                       kStore,
                   {}, 128, setup);
      for (uint32_t i = 0; i < 128; ++i) {
        const uint32_t below = std::min(limit < i / 64 * 64 ? 0 : limit - i / 64 * 64, 64u);
        CAPTURE(limit, seed, i);
        CHECK(out[i] == below + (below > 0 ? 1000 : 0) + (below == 64 ? 2000 : 0));
      }
    }
  }
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 32; @%p0 bra first;\n"
                      "barrier.cta.red.or.pred %p1, 1, 64, %p0; ret;\nfirst: bar.sync 1, 64;",
                      {.threads = 64}),
             Contains("barrier 1: earlier arrivals were for another reduction"));
}

}  // namespace stratum::emulator
