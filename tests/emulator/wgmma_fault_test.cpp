// What the emulator reports about products of a warpgroup.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

using Catch::Contains;

// Three products of 64 x 16 x 8, of operands that are all zeros, and what is needed around them. A is at the beginning
// of shared memory, B 8192 bytes behind it, both K-major with a swizzle of 128 bytes.
const std::string kDeclare =
    "{.reg .f32 %d<4>; .reg .f32 %e<4>; .reg .b32 %a<4>; .reg .b64 %da, %db, %dc; .reg .pred %adds;\n"
    "mov.u32 %r8, dynamic; shl.b32 %r9, %tid, 7; add.s32 %r9, %r9, %r8; mov.u32 %r0, 0; setp.ne.b32 %adds, 0, 0;\n"
    "mov.b64 %da, 0x4000004000010040; mov.b64 %db, 0x4000004000010240; mov.u32 %a0, 0; mov.u32 %a1, 0;\n"
    "mov.u32 %a2, 0; mov.u32 %a3, 0;\n";
std::string stores(uint32_t first = 0) {
  std::string text;
  for (uint32_t at = first; at < 128; at += 16)
    text += fmt::format("st.shared.v4.u32 [%r9+{}], {{%r0,%r0,%r0,%r0}};", at);
  return text + "\n";
}
const std::string kProxyFence = "fence.proxy.async.shared::cta;\n", kTogether = "bar.sync 0;\n";
const std::string kFilled = kDeclare + stores() + kProxyFence + kTogether;
const std::string kFence = "wgmma.fence.sync.aligned;\n", kCommit = "wgmma.commit_group.sync.aligned;\n", kEnd = "}";
std::string wait(int but = 0) { return fmt::format("wgmma.wait_group.sync.aligned {};\n", but); }

const std::string kD = "{%d0,%d1,%d2,%d3}", kE = "{%e0,%e1,%e2,%e3}";
std::string product(const std::string& accumulators = kD, const std::string& a = "%da", const std::string& b = "%db") {
  return fmt::format("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {}, {}, {}, %adds, 1, 1{}, 0;\n",
                     accumulators, a, b, a[0] == '{' ? "" : ", 0");
}
const std::string kOfRegisters = product(kD, "{%a0,%a1,%a2,%a3}");
const std::string kRead = "add.rn.f32 %f0, %d1, %d1;\n", kWrite = "mov.f32 %d1, 0f00000000;\n";

std::string fault(const std::string& body, uint32_t threads = 128, uint64_t seed = 0) {
  Setup setup{.threads = threads, .shared_bytes = 128 * threads};
  setup.options.checks = true;
  setup.options.seed = seed;
  setup.options.copies = seed ? Arrival::Random : Arrival::AtWait;
  return fault_of(body, setup);
}

}  // namespace

TEST_CASE("products that keep the rules are no fault") {
  const std::string twice = product() + kCommit + product(kE) + kCommit + wait(1) + kRead + wait(0);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CHECK(fault(kFilled + kFence + product() + kCommit + wait() + kRead + kWrite + kEnd, 128, seed) == "");
    CHECK(fault(kFilled + kFence + twice + kRead + kFence + twice + kEnd, 256, seed) == "");
    CHECK(fault(kFilled + kFence + kOfRegisters + kOfRegisters + kCommit + wait() + kEnd, 128, seed) == "");
  }
}

TEST_CASE("accumulators and A in registers are not touched before the wait for their group") {
  CHECK_THAT(fault(kFilled + kFence + product() + kCommit + kRead + wait() + kEnd),
             Contains("line 20: in flight: %d1@1 is an accumulator of the wgmma at line 18, which was not waited for"));
  for (const std::string& touch : {kRead, kWrite, std::string("mov.f32 %f1, %d1;\n")}) {
    CHECK_THAT(fault(kFilled + kFence + product() + touch + kCommit + wait() + kEnd),
               Contains("%d1@1 is an accumulator"));
    CHECK_THAT(fault(kFilled + kFence + product() + kCommit + wait(1) + touch + wait() + kEnd),
               Contains("%d1@1 is an accumulator"));
  }
  CHECK_THAT(fault(kFilled + kFence + product() + wait() + kRead + kCommit + wait() + kEnd), Contains("in flight"));
  CHECK_THAT(fault(kFilled + kFence + kOfRegisters + kCommit + "mov.u32 %a2, 1;\n" + wait() + kEnd),
             Contains("%a2@1 is a part of A of the wgmma"));
  CHECK(fault(kFilled + kFence + kOfRegisters + kCommit + "add.s32 %r1, %a2, 1;\n" + wait() + kEnd) == "");
  CHECK_THAT(fault(kFilled + kFence + product() + product("{%d0,%d1,%e2,%e3}") + kCommit + wait() + kEnd),
             Contains("%d0@1 is one of other accumulators of the wgmma at line 18"));
  CHECK_THAT(fault(kFilled + kFence + product() + kCommit + kEnd),
             Contains("ends without a wait for its wgmma at line 18"));
}

TEST_CASE("a fence is between what touches registers and a product that uses them") {
  CHECK_THAT(fault(kFilled + product() + kCommit + wait() + kEnd), Contains("no wgmma.fence is before"));
  CHECK_THAT(fault(kFilled + kFence + kWrite + product() + kCommit + wait() + kEnd),
             Contains("in flight: %d1@1 was used at line 18, and no wgmma.fence is in between"));
  CHECK_THAT(fault(kFilled + kFence + product() + kCommit + wait() + kRead + product() + kCommit + wait() + kEnd),
             Contains("no wgmma.fence is in between"));
  CHECK_THAT(fault(kFilled + kFence + "mov.u32 %a2, 1;\n" + kOfRegisters + kCommit + wait() + kEnd),
             Contains("%a2@1 was used"));
  CHECK(fault(kFilled + kFence + product() + kCommit + wait() + product() + kCommit + wait() + kEnd) == "");
}

TEST_CASE("the results of a group in flight are poison") {
  const auto bits = [&](Arrival arrival) {
    Setup setup{.threads = 128, .shared_bytes = 128 * 128};
    setup.options.copies = arrival;
    return run_body(kFilled + kFence + product() + kCommit + "st.global.f32 [%out], %d0;\n" + wait() + kEnd, {}, 1,
                    setup)[0];
  };
  CHECK(bits(Arrival::AtWait) == 0xffffffff);
}

TEST_CASE("four warps multiply together") {
  const std::string some = "setp.lt.u32 %p0, %tid, 96;\n@!%p0 bra last;\n", last = "last:\n";
  CHECK_THAT(fault(kFilled + some + kFence + product() + kCommit + wait() + last + kEnd, 128, 1),
             Contains("converged") && (Contains("has ended") || Contains("other warps of its warpgroup have come")));
  // The fourth warp waits at a barrier for what comes behind the others' product.
  const std::string missing = fault(kFilled + kFence + some + product() + kCommit + wait() + last + kTogether + kEnd);
  CHECK_THAT(missing, Contains("deadlock: warp 0 waits at line") && Contains("for the wgmma at line") &&
                          Contains("to which warp 3 hasn't come") && Contains("warp 3 waits") && Contains("barrier 0"));
  CHECK_THAT(fault(kFilled + kFence + some + product() + last + product() + kCommit + wait() + kEnd),
             Contains("other warps of the warpgroup come to line"));
  CHECK_THAT(fault(kFilled + kFence + "setp.lt.u32 %p0, %tid, 96;\n@%p0 add.s64 %db, %db, 2;\n" + product() + kCommit +
                   wait() + kEnd),
             Contains("descriptors") && Contains("the warpgroup's other warps have"));
  CHECK_THAT(fault(kFilled +
                   "setp.lt.u32 %adds, %tid, 32; mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 "
                   "%d3, %d0;\n" +
                   kFence + product() + kCommit + wait() + kEnd),
             Contains("whether D is added to differs between the warps"));
  CHECK_THAT(fault(kFilled + kFence + product() + kCommit + wait() + kEnd, 96), Contains("only some of warps 0 to 3"));
  CHECK_THAT(fault(kFilled + "setp.lt.u32 %p0, %tid, 5;\n@%p0 " + kFence + kEnd), Contains("converged"));
  CHECK_THAT(fault(kFilled + kFence + "cvt.u64.u32 %rd5, %tid; add.s64 %db, %db, %rd5;\n" + product() + kEnd),
             Contains("the descriptor of B differs between lanes"));
}

TEST_CASE("operands in shared memory are there, written, and left alone until the wait") {
  CHECK_THAT(fault(kFilled + kFence + "mov.b64 %db, 0x4000004000010c40;\n" + product() + kEnd),
             Contains("bounds: B with the descriptor 0x4000004000010c40") && Contains("outside shared memory"));
  CHECK_THAT(fault(kFilled + kFence + "mov.b64 %db, 0x4002004000010240;\n" + product() + kEnd),
             Contains("operand: the descriptor of B") && Contains("expected a base offset of 0"));
  CHECK_THAT(fault(kDeclare + stores(16) + kProxyFence + kTogether + kFence + product() + kEnd),
             Contains("unwritten: A has a value that nobody wrote"));
  CHECK_THAT(fault(kDeclare + stores() + kTogether + kFence + product() + kEnd), Contains("fence.proxy.async"));
  CHECK_THAT(fault(kDeclare + stores() + kProxyFence + kFence + product() + kCommit + wait() + kEnd), Contains("race"));
  CHECK_THAT(fault(kFilled + kFence + product() + kCommit + kTogether + stores() + wait() + kEnd),
             Contains("race: write of shared address") && Contains("wgmma"));
  CHECK(fault(kFilled + kFence + product() + kCommit + wait() + kTogether + stores() + kEnd) == "");
  CHECK_THAT(fault(kFilled + "setp.eq.b32 %adds, 0, 0;\n" + kFence + product() + kEnd),
             Contains("unwritten: accumulator %d0@1 has a value that nobody wrote"));
}

TEST_CASE("products of a warpgroup take a certain number of accumulators, signs and transpositions") {
  const auto error = [](const std::string& text) {
    try {
      Kernel::load(module_of(text), "test");
    } catch (const std::exception& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  CHECK_THAT(error(kDeclare + product("{%d0,%d1,%d2}") + kEnd), Contains("don't fit"));
  CHECK_THAT(
      error(kDeclare + "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " + kD + ", %da, %db, %adds, 2, 1, 0, 0;}"),
      Contains("expected -1, 0 or 1, got 2"));
  CHECK_THAT(fault(kFilled + kFence + "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 " + kD +
                   ", %da, %db, %adds, 0, 1, 0, 0;}"),
             Contains("expected a scale of 1 or -1, got 0"));
  CHECK_THAT(error(kDeclare + "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 " + kD + ", %da, %db, %adds, 1, 1;}"),
             Contains("unknown instruction form"));
}

}  // namespace stratum::emulator
