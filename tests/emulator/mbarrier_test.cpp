// mbarriers between threads, and setmaxnreg. Tensor copies that arrive at them: tensor_copy_test.cpp.
#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

using Catch::Contains;

// An mbarrier for `count` arrivals at %r8; %p0 is the first warp, %r9 and %rd2 are the thread's word of shared memory
// and of out.
std::string with_mbarrier(int count, const std::string& body) {
  return "mov.u32 %r8, dynamic; setp.lt.u32 %p0, %tid, 32; setp.eq.u32 %p1, %tid, 0;\n"
         "shl.b32 %r9, %tid, 2; add.s32 %r9, %r9, %r8; mul.wide.u32 %rd0, %tid, 4; add.s64 %rd2, %out, %rd0;\n"
         "@%p1 mbarrier.init.shared::cta.b64 [%r8], " +
         std::to_string(count) + "; bar.sync 0;\n" + body;
}

// Waits for a phase of that parity, as the kernels do.
std::string wait(int parity) {
  return "{ .reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%r8], " + std::to_string(parity) +
         ";\n@done bra.uni over; bra.uni again;\nover: }\n";
}

Setup two_warps(uint64_t seed = 0) {
  Setup setup{.threads = 64, .shared_bytes = 1024};
  setup.options.checks = true;
  setup.options.seed = seed;
  return setup;
}

const std::string kArrive = "mbarrier.arrive.shared::cta.b64 _, [%r8];\n";

std::string fault(int count, const std::string& body) { return fault_of(with_mbarrier(count, body), two_warps()); }

}  // namespace

TEST_CASE("who waits for a phase sees what was done before its arrivals") {
  // The first warp's words, in two phases; the second adds them.
  const std::string body =
      with_mbarrier(32,
                    "@!%p0 bra reader;\n"
                    "st.shared.u32 [%r9+128], %tid;\n" +
                        kArrive + "bar.sync 1, 64; add.s32 %r0, %tid, 100; st.shared.u32 [%r9+256], %r0;\n" + kArrive +
                        "bra over;\nreader:\n" + wait(0) + "ld.shared.u32 %r1, [%r9]; bar.sync 1, 64;\n" + wait(1) +
                        "ld.shared.u32 %r2, [%r9+128]; add.s32 %r1, %r1, %r2; st.global.u32 [%rd2], %r1;\nover:\n");
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto out = run_body(body, {}, 64, two_warps(seed));
    for (uint32_t i = 0; i < 32; ++i) CHECK(out[32 + i] == 2 * i + 100);
  }
}

TEST_CASE("arrivals come in any number at a time") {
  const std::string body = with_mbarrier(7,
                                         "@!%p1 bra others;\nmbarrier.arrive.shared::cta.b64 _, [%r8], 3;\n"
                                         "mbarrier.arrive.shared::cta.b64 _, [%r8], 4;\nothers:\n" +
                                             wait(0) + "st.global.u32 [%rd2], 1;");
  CHECK(run_body(body, {}, 64, two_warps()) == std::vector<uint32_t>(64, 1));
}

TEST_CASE("a wait that nobody ends is a deadlock that says for what") {
  CHECK_THAT(fault(33, "@%p0 " + kArrive + wait(0)),
             Contains("deadlock") &&
                 Contains("warp 0 waits at line 15 for the mbarrier at 0x400, whose phase 0 (parity 0) "
                          "still expects 1 of 33 arrivals and 0 bytes") &&
                 Contains("warp 1 waits at line 15"));
  CHECK_THAT(fault(32, "@!%p0 ret;\n" + kArrive + wait(1)),
             Contains("deadlock") && Contains("whose phase 1 (parity 1) still expects 32 of 32 arrivals"));
}

TEST_CASE("a wait for the other parity passes at once, and orders nothing") {
  CHECK_THAT(fault(33, "@!%p0 bra reader;\nst.shared.u32 [%r9+128], %tid;\n" + kArrive + "bra over;\nreader:\n" +
                           wait(1) + "ld.shared.u32 %r1, [%r9];\nover:\n"),
             Contains("race: write of shared") && Contains("read by warp 1, lane 0 at line 22"));
}

TEST_CASE("what comes after an arrival isn't ordered by its phase") {
  CHECK_THAT(fault(32, "@!%p0 bra reader;\n" + kArrive + "st.shared.u32 [%r9+128], %tid;\nbra over;\nreader:\n" +
                           wait(0) + "ld.shared.u32 %r1, [%r9];\nover:\n"),
             Contains("race") && Contains("written by warp 0"));
  CHECK_THAT(fault(32, "@!%p0 bra writer;\n" + kArrive + "ld.shared.u32 %r1, [%r9+128];\nbra over;\nwriter:\n" +
                           wait(0) + "st.shared.u32 [%r9], %tid;\nover:\n"),
             Contains("race") && Contains("read by warp 0"));
}

TEST_CASE("mbarriers that are used wrongly are told") {
  CHECK(fault(31, "@%p0 " + kArrive) == "");  // 31 arrivals complete one phase, one the next's
  CHECK_THAT(fault(2, "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8], 3;"),
             Contains("barrier") && Contains("3 arrivals at the mbarrier at 0x400: phase 0 expects 2 of 2 more"));
  CHECK_THAT(fault(2, "@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;"), Contains("initialised a second time"));
  CHECK_THAT(fault(0, ""), Contains("an mbarrier for 0 arrivals: expected 1 to 1048575"));
  CHECK_THAT(fault(1, "mbarrier.arrive.shared::cta.b64 _, [%r8+8];"), Contains("no mbarrier was initialised at"));
  CHECK_THAT(fault(1, "mbarrier.arrive.shared::cta.b64 _, [%r8+4];"), Contains("misaligned"));
  CHECK_THAT(fault(1, "mbarrier.arrive.shared::cta.b64 _, [%r8+1024];"), Contains("bounds"));
  CHECK_THAT(fault(1, "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 2;"), Contains("expected 0 or 1, got 2"));
  CHECK_THAT(fault(1, "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 1048576;"),
             Contains("expects 1048576 bytes: at most 1048575"));
  CHECK_THAT(fault_of("mov.u32 %r8, dynamic; setp.lt.u32 %p0, %tid, 32; setp.eq.u32 %p1, %tid, 0;\n"
                      "@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;\n@!%p0 mbarrier.arrive.shared::cta.b64 _, [%r8];",
                      two_warps()),
             Contains("race") && Contains("was initialised by warp 0, lane 0; nothing orders the two"));
}

TEST_CASE("registers move between the warps of a block") {
  Setup setup = two_warps();
  setup.registers = 64;
  const auto moved = [&](const std::string& give, const std::string& take) {
    return fault_of("setp.lt.u32 %p0, %tid, 32;\n@!%p0 bra second;\n" + take + "\nret;\nsecond: " + give, setup);
  };
  CHECK(moved("setmaxnreg.dec.sync.aligned.u32 24;", "setmaxnreg.inc.sync.aligned.u32 104;") == "");
  CHECK_THAT(moved("setmaxnreg.dec.sync.aligned.u32 32;", "setmaxnreg.inc.sync.aligned.u32 104;"),
             Contains("deadlock") && Contains("warp 0 waits at line 12 for 104 registers a thread in place of 64: the "
                                              "block has 1024 to give, it needs 1280"));
  CHECK_THAT(moved("setmaxnreg.dec.sync.aligned.u32 72;", ""), Contains("keep 72 registers, and have 64"));
  CHECK_THAT(moved("", "setmaxnreg.inc.sync.aligned.u32 56;"), Contains("get 56 registers, and have 64"));
  CHECK_THAT(moved("setmaxnreg.dec.sync.aligned.u32 28;", ""), Contains("expected a multiple of 8 from 24 to 256"));
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 8; @%p0 setmaxnreg.dec.sync.aligned.u32 24;", setup),
             Contains("converged"));
}

}  // namespace stratum::emulator
