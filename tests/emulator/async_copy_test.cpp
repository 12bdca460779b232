#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

using Catch::Contains;

// %r9 is 16 bytes of shared memory of the thread, %rd1 and %rd2 16 bytes of in and out.
const std::string kOwn16 =
    "mul.wide.u32 %rd0, %tid, 16; add.s64 %rd1, %in, %rd0; add.s64 %rd2, %out, %rd0;\n"
    "shl.b32 %r9, %tid, 4; mov.u32 %r8, dynamic; add.s32 %r9, %r9, %r8;\n";
const std::string kCopyOut = "ld.shared.v4.u32 {%r0,%r1,%r2,%r3}, [%r9]; st.global.v4.u32 [%rd2], {%r0,%r1,%r2,%r3};\n";

Setup setup(Arrival copies) {
  Setup found{.shared_bytes = 1024};
  found.options.copies = copies;
  return found;
}

}  // namespace

TEST_CASE("copies arrive by their wait, the rest filled with zeros") {
  const auto in = random_words(128);
  for (const Arrival arrival : {Arrival::AtIssue, Arrival::AtWait}) {
    CHECK(run_body(kOwn16 + "cp.async.cg.shared.global [%r9], [%rd1], 16; cp.async.wait_all;\n" + kCopyOut, in, 128,
                   setup(arrival)) == in);
    CHECK(run_body(kOwn16 +
                       "cp.async.cg.shared.global [%r9], [%rd1], 16, 16; cp.async.commit_group;\n"
                       "cp.async.wait_group 0;\n" +
                       kCopyOut,
                   in, 128, setup(arrival)) == in);
    const auto part = run_body(kOwn16 +
                                   "and.b32 %r5, %tid, 15; cp.async.ca.shared.global [%r9], [%rd1], 16, %r5;\n"
                                   "cp.async.commit_group; cp.async.wait_group 0;\n" +
                                   kCopyOut,
                               in, 128, setup(arrival));
    for (size_t byte = 0; byte < 512; ++byte) {
      const auto at = [&](const std::vector<uint32_t>& words) { return words[byte / 4] >> byte % 4 * 8 & 0xff; };
      CAPTURE(byte);
      CHECK(at(part) == (byte % 16 < (byte / 16 & 15) ? at(in) : 0));
    }
    const auto words = run_body(kOwn16 +
                                    "cp.async.ca.shared.global [%r9+8], [%rd1+4], 4, 4;\n"
                                    "cp.async.ca.shared.global [%r9], [%rd1+8], 8, 8;\n"
                                    "cp.async.commit_group; cp.async.wait_group 0;\n" +
                                    kCopyOut,
                                in, 128, setup(arrival));
    for (size_t i = 0; i < 32; ++i) {
      CHECK(words[4 * i] == in[4 * i + 2]);
      CHECK(words[4 * i + 1] == in[4 * i + 3]);
      CHECK(words[4 * i + 2] == in[4 * i + 1]);
    }
  }
}

TEST_CASE("late copies are poison before their wait, and groups end in their order") {
  const auto in = random_words(128);
  const std::string body = kOwn16 +
                           "cp.async.ca.shared.global [%r9], [%rd1], 4, 4; cp.async.commit_group;\n"
                           "cp.async.ca.shared.global [%r9+4], [%rd1+4], 4, 4; cp.async.commit_group;\n"
                           "cp.async.commit_group;\n"
                           "cp.async.ca.shared.global [%r9+8], [%rd1+8], 4, 4; cp.async.commit_group;\n"
                           "cp.async.ca.shared.global [%r9+12], [%rd1+12], 4, 4;\n";
  for (uint32_t but = 0; but < 5; ++but) {
    const auto out = run_body(body + "cp.async.wait_group " + std::to_string(but) + ";\n" + kCopyOut, in, 128,
                              setup(Arrival::AtWait));
    const size_t arrived[] = {3, 2, 2, 1, 0};  // words; the empty group counts, the open one is waited for by none
    for (size_t i = 0; i < 128; ++i) {
      CAPTURE(but, i);
      CHECK(out[i] == (i % 4 < arrived[but] ? in[i] : 0xffffffff));
    }
  }
  const auto eager = run_body(body + kCopyOut, in, 128, setup(Arrival::AtIssue));
  CHECK(eager == in);
}

TEST_CASE("every thread has groups of its own") {
  const auto in = random_words(128);
  // Odd lanes commit twice: waiting for all but one group leaves out the copy of the even lanes.
  const auto out = run_body(kOwn16 +
                                "and.b32 %r5, %tid, 1; setp.ne.u32 %p0, %r5, 0;\n"
                                "cp.async.cg.shared.global [%r9], [%rd1], 16, 16; cp.async.commit_group;\n"
                                "@%p0 cp.async.commit_group; cp.async.wait_group 1;\n" +
                                kCopyOut,
                            in, 128, setup(Arrival::AtWait));
  for (size_t i = 0; i < 128; ++i) CHECK(out[i] == (i / 4 % 2 ? in[i] : 0xffffffff));
}

TEST_CASE("copies are checked when they are issued") {
  const Setup late = setup(Arrival::AtWait);
  CHECK_THAT(fault_of(kOwn16 + "\ncp.async.cg.shared.global [%r9+8], [%rd1], 16, 16;", late),
             Contains("line 13") && Contains("shared") && Contains("multiple of 16"));
  CHECK_THAT(fault_of(kOwn16 + "cp.async.cg.shared.global [%r9], [%rd1+8], 16, 16;", late),
             Contains("global") && Contains("multiple of 16"));
  CHECK_THAT(fault_of(kOwn16 + "cp.async.cg.shared.global [%r9+1024], [%rd1], 16, 16;", late), Contains("outside"));
  CHECK_THAT(fault_of(kOwn16 + "mov.u64 %rd1, 0; cp.async.cg.shared.global [%r9], [%rd1], 16, 16;", late),
             Contains("no memory"));
  CHECK_THAT(fault_of(kOwn16 + "cp.async.cg.shared.global [%r9], [%rd1], 16, 17;", late),
             Contains("copies 17 bytes of 16"));
  CHECK_THAT(fault_of(kOwn16 + "cp.async.ca.shared.global [%r9], [%rd1], 12, 12;", late),
             Contains("expected 4, 8 or 16 bytes, got 12"));
  CHECK(fault_of(kOwn16 + "mov.u64 %rd1, 0; cp.async.cg.shared.global [%r9], [%rd1], 16, 0;", late) == "");
}

}  // namespace stratum::emulator
