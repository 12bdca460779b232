// What the checks of shared memory find: accesses that nothing orders, values that nobody wrote.
#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

using Catch::Contains;

// Each thread has %r1, the address of its own word, and %r2, that of the thread 32 further on, in a ring of two warps.
const std::string kRing =
    "mov.u32 %r0, dynamic; shl.b32 %r1, %tid, 2; add.s32 %r1, %r1, %r0; xor.b32 %r2, %tid, 32; shl.b32 %r2, %r2, 2; "
    "add.s32 %r2, %r2, %r0;\n";

Setup watched(uint64_t seed, uint32_t threads = 64) {
  Setup setup{.threads = threads, .shared_bytes = 4 * threads};
  setup.options.checks = true;
  setup.options.seed = seed;
  return setup;
}

// The same fault under any order of the warps: what it says about the two accesses may be in either order.
std::string fault_in_any_order(const std::string& body, uint32_t threads = 64) {
  const std::string in_order = fault_of(kRing + body, watched(0, threads));
  for (uint64_t seed = 1; seed < 8; ++seed) {
    const std::string other = fault_of(kRing + body, watched(seed, threads));
    CAPTURE(in_order, other, seed);
    CHECK(other.empty() == in_order.empty());
  }
  return in_order;
}

}  // namespace

TEST_CASE("a read is a race with a write by another warp unless a barrier is between") {
  const std::string write = "st.shared.u32 [%r1], %tid;\n", read = "ld.shared.u32 %r3, [%r2];";
  CHECK_THAT(fault_in_any_order(write + read), Contains("race: ") && Contains("nothing orders the two"));
  CHECK_THAT(fault_of(kRing + write + read + "\n", watched(0)),
             Contains("line 11: race: write of shared address") || Contains("line 12: race: read of shared address"));
  CHECK(fault_in_any_order(write + "bar.sync 0;" + read) == "");
  // Of this lane's own word, or under a barrier of which only the writers tell that they came.
  CHECK(fault_in_any_order(write + "ld.shared.u32 %r3, [%r1];") == "");
  CHECK(
      fault_in_any_order("setp.lt.u32 %p0, %tid, 32; @%p0 bra WRITER; bar.sync 1, 64; ld.shared.u32 %r3, [%r2]; ret;\n"
                         "WRITER: st.shared.u32 [%r1], %tid; bar.arrive 1, 64;") == "");
  CHECK_THAT(
      fault_in_any_order("setp.lt.u32 %p0, %tid, 32; @%p0 bra WRITER; bar.sync 1, 64; ld.shared.u32 %r3, [%r2]; ret;\n"
                         "WRITER: bar.arrive 1, 64; st.shared.u32 [%r1], %tid;"),
      Contains("race"));
}

TEST_CASE("a barrier of every thread comes after all that warps did that have ended") {
  const std::string first = "setp.lt.u32 %p0, %tid, 32; @%p0 st.shared.u32 [%r1], %tid; @%p0 ret;\n";
  CHECK(fault_in_any_order(first + "bar.sync 0; ld.shared.u32 %r3, [%r2];") == "");
  CHECK_THAT(fault_in_any_order(first + "ld.shared.u32 %r3, [%r2];"), Contains("race"));
  CHECK_THAT(fault_in_any_order(first + "bar.sync 1, 32; ld.shared.u32 %r3, [%r2];"), Contains("race"));
}

TEST_CASE("a write is a race with an earlier read by another warp unless a barrier is between") {
  const std::string begin = "st.shared.u32 [%r1], %tid; bar.sync 0; ld.shared.u32 %r3, [%r2];\n";
  // Told as a race of whichever comes second.
  CHECK_THAT(fault_in_any_order(begin + "st.shared.u32 [%r1], %r3;"), Contains("race: "));
  CHECK(fault_in_any_order(begin + "bar.sync 0; st.shared.u32 [%r1], %r3;") == "");
  CHECK_THAT(fault_in_any_order("st.shared.u32 [%r0], %tid;"), Contains("race: write") && Contains("written by warp"));
}

TEST_CASE("16-bit neighbours of different lanes are no race") {
  const std::string own = "shl.b32 %r5, %tid, 1; add.s32 %r5, %r5, %r0; cvt.u16.u32 %h0, %tid; ";
  const std::string other = "xor.b32 %r6, %tid, 1; shl.b32 %r6, %r6, 1; add.s32 %r6, %r6, %r0;\n";
  const std::string write = "st.shared.u16 [%r5], %h0; ld.shared.u16 %h1, [%r5]; st.shared.u16 [%r5], %h1;\n";
  CHECK(fault_in_any_order(own + other + write) == "");
  CHECK_THAT(fault_in_any_order(own + other + write + "ld.shared.u16 %h1, [%r6];"), Contains("race"));
  CHECK_THAT(fault_in_any_order(own + other + write + "and.b32 %r6, %r6, -4; ld.shared.u32 %r3, [%r6];"),
             Contains("race"));
  CHECK(fault_in_any_order(own + other + write + "and.b32 %r6, %r6, -4; bar.sync 0; ld.shared.u32 %r3, [%r6];") == "");
}

TEST_CASE("lanes of a warp are ordered by bar.warp.sync") {
  const std::string write = "st.shared.u32 [%r1], %tid;\n";
  const std::string neighbour = "xor.b32 %r4, %tid, 1; shl.b32 %r4, %r4, 2; add.s32 %r4, %r4, %r0; ";
  CHECK_THAT(fault_in_any_order(neighbour + write + "ld.shared.u32 %r3, [%r4];", 32),
             Contains("line 12: race: read") && Contains("lane 0: written by warp 0, lane 1 at line 11"));
  CHECK(fault_in_any_order(neighbour + write + "bar.warp.sync -1; ld.shared.u32 %r3, [%r4];", 32) == "");
  CHECK_THAT(fault_in_any_order(
                 neighbour + write + "bar.warp.sync -1; ld.shared.u32 %r3, [%r4];\nst.shared.u32 [%r1], %r3;", 32),
             Contains("line 13: race: write") && Contains("read by warp 0, lane 1 at line 12"));
}

TEST_CASE("bytes of a cp.async are nobody's until its thread has waited, and others' after a barrier") {
  const std::string copy =
      "shl.b32 %r5, %tid, 2; cvt.u64.u32 %rd1, %r5; add.s64 %rd1, %rd1, %in; "
      "cp.async.ca.shared.global [%r1], [%rd1], 4, 4; cp.async.commit_group;\n";
  const auto fault = [&](const std::string& body) { return fault_in_any_order(copy + body); };
  CHECK(fault("cp.async.wait_group 0; ld.shared.u32 %r3, [%r1];") == "");
  CHECK(fault("cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r3, [%r2];") == "");
  CHECK_THAT(fault("ld.shared.u32 %r3, [%r1];"),
             Contains("a cp.async may still be writing it by warp 0, lane 0 at line 11"));
  CHECK_THAT(fault("cp.async.wait_group 1; bar.sync 0; ld.shared.u32 %r3, [%r1];"), Contains("may still be writing"));
  CHECK_THAT(fault("cp.async.wait_group 0; ld.shared.u32 %r3, [%r2];"), Contains("race"));
  CHECK_THAT(fault("bar.sync 0; cp.async.wait_group 0; ld.shared.u32 %r3, [%r2];"), Contains("race"));
  CHECK_THAT(fault("st.shared.u32 [%r1], %tid;"), Contains("may still be writing"));
}

TEST_CASE("shared memory that nobody wrote may be moved but not used") {
  const std::string load = "ld.shared.v2.u32 {%r3, %r4}, [%r0];\n";
  CHECK(fault_in_any_order(load + "mov.b32 %r5, %r4;") == "");
  CHECK_THAT(fault_in_any_order(load + "add.s32 %r5, %r4, 1;"),
             Contains("line 12: unwritten: operand 2") && Contains("read at line 11: 8 bytes at shared address 0x400"));
  CHECK_THAT(fault_in_any_order("setp.eq.u32 %p0, %tid, 0; @%p0 st.shared.u32 [%r0], %tid; bar.sync 0;\n" + load +
                                "add.s32 %r5, %r3, 1;\nadd.s32 %r5, %r4, 1;"),
             Contains("line 14: unwritten"));
  // A selection takes only the value that it chooses; a store hands on that there is none.
  CHECK(fault_in_any_order(load + "setp.eq.u32 %p0, %tid, 99; selp.b32 %r5, %r3, 1, %p0; add.s32 %r5, %r5, 1;") == "");
  CHECK_THAT(
      fault_in_any_order(
          load + "bar.warp.sync -1; st.shared.u32 [%r1], %r3; ld.shared.u32 %r5, [%r1];\nadd.s32 %r5, %r5, 1;", 2),
      Contains("line 13: unwritten"));
  CHECK_THAT(fault_in_any_order("add.s32 %r5, %r6, 1;"), Contains("unwritten: operand 2"));
  CHECK_THAT(fault_in_any_order("@%p3 bra END; END:"), Contains("unwritten: the guard"));
}

TEST_CASE("a loop without end comes to the limit") {
  Setup setup = watched(0);
  setup.options.limit = 10000;
  CHECK_THAT(fault_of("\nLOOP: bra LOOP;", setup), Contains("line 11: limit: no end after 10000 instructions"));
  setup.options.checks = false;
  CHECK_THAT(fault_of("\nLOOP: bra LOOP;", setup), Contains("limit"));
  CHECK(fault_of("mov.u32 %r1, 0; LOOP: add.s32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 1000; @%p0 bra LOOP;", setup) == "");
}

TEST_CASE("a byte of global memory that two blocks of a launch write") {
  const auto blocks_of = [](const std::string& words) {
    Setup setup{.blocks = 3};
    setup.options.checks = true;
    return fault_of("mov.u32 %r0, %ctaid.x; mad.lo.s32 %r0, %r0, " + words +
                        ", %tid; mul.wide.u32 %rd0, %r0, 4; add.s64 %rd0, %out, %rd0;\nst.global.u32 [%rd0], %r0;\n"
                        "st.global.u32 [%rd0], %tid;",
                    setup);
  };
  CHECK(blocks_of("32") == "");
  CHECK_THAT(blocks_of("31"), Contains("line 11: race: write of global address") && Contains("written by block") &&
                                  Contains("at line 11; nothing orders the two"));
}

TEST_CASE("a byte of global memory that a block reads and another one writes") {
  // Each block writes its own words and reads those of the block `ahead` of it.
  const auto blocks_of = [](const std::string& ahead) {
    Setup setup{.blocks = 3};
    setup.options.checks = true;
    return fault_of(
        "mov.u32 %r0, %ctaid.x; mad.lo.s32 %r1, %r0, 32, %tid; mul.wide.u32 %rd0, %r1, 4;\n"
        "add.s64 %rd0, %out, %rd0; st.global.u32 [%rd0], %r0;\nld.global.u32 %r2, [%rd0+" +
            ahead + "];",
        setup);
  };
  CHECK(blocks_of("0") == "");
  CHECK_THAT(blocks_of("128"), Contains("line 12: race: read of global address") && Contains("by block 0: written by "
                                                                                             "block 1 at line 11"));
}

}  // namespace stratum::emulator
