#include <catch2/catch.hpp>

#include "support.h"

namespace stratum::emulator {
namespace {

// Shuffles with b and c of every lane; out: value and predicate of each.
std::vector<uint32_t> shuffled(const std::string& mode, const std::vector<uint32_t>& in) {
  return run_body(
      "mul.wide.u32 %rd0, %tid, 16; add.s64 %rd1, %in, %rd0;\n"
      "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1];\n"
      "shfl.sync." +
          mode +
          ".b32 %r0|%p0, %r0, %r1, %r2, -1;\n"
          "selp.u32 %r4, 1, 0, %p0; mul.wide.u32 %rd0, %tid, 8; add.s64 %rd1, %out, %rd0;\n"
          "st.global.v2.u32 [%rd1], {%r0, %r4};",
      in, 64);
}

}  // namespace

TEST_CASE("shuffles follow segments and bounds") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    for (const std::string mode : {"up", "down", "bfly", "idx"}) {
      const auto in = random_words(128, seed);
      const auto out = shuffled(mode, in);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t b = in[4 * lane + 1] & 31, bound = in[4 * lane + 2] & 31, segment = in[4 * lane + 2] >> 8 & 31;
        const uint32_t last = (lane & segment) | (bound & ~segment);
        const int from = static_cast<int>(mode == "up"     ? lane - b
                                          : mode == "down" ? lane + b
                                          : mode == "bfly" ? lane ^ b
                                                           : (lane & segment) | (b & ~segment & 31));
        const bool within = mode == "up" ? from >= static_cast<int>(last) : from <= static_cast<int>(last);
        const size_t source = static_cast<size_t>(from);
        CAPTURE(seed, mode, lane);
        CHECK(out[2 * lane] == in[4 * (within ? source : lane)]);
        CHECK(out[2 * lane + 1] == (within ? 1 : 0));
      }
    }
  }
}

TEST_CASE("a butterfly over the warp sums it") {
  std::string body = "mul.lo.s32 %r0, %tid, %tid;\n";
  for (const std::string step : {"16", "8", "4", "2", "1"}) {
    body += "shfl.sync.bfly.b32 %r1|%p0, %r0, " + step + ", 31, -1; add.s32 %r0, %r0, %r1;\n";
  }
  const auto out =
      run_body(body + "mul.wide.u32 %rd0, %tid, 4; add.s64 %rd0, %out, %rd0; st.global.u32 [%rd0], %r0;", {}, 32);
  CHECK(out == std::vector<uint32_t>(32, 31 * 32 * 63 / 6));
}

TEST_CASE("lanes that a shuffle or a warp barrier names must all come") {
  using Catch::Contains;
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 16;\n@%p0 shfl.sync.idx.b32 %r0|%p1, %tid, 0, 31, -1;"),
             Contains("line 11") && Contains("lanes 0x0000ffff execute it, expected 0xffffffff"));
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 16;\n@%p0 shfl.sync.idx.b32 %r0|%p1, %tid, 20, 31, 65535;"),
             Contains("lane 0 reads lane 20, which does not take part"));
  CHECK(fault_of("setp.lt.u32 %p0, %tid, 16;\n@%p0 shfl.sync.idx.b32 %r0|%p1, %tid, 3, 31, 65535;") == "");
  CHECK_THAT(fault_of("setp.lt.u32 %p0, %tid, 31;\n@%p0 bar.warp.sync -1;"),
             Contains("line 11") && Contains("0x7fffffff"));
  CHECK(fault_of("setp.lt.u32 %p0, %tid, 31;\n@%p0 bar.warp.sync 0x7fffffff; bar.warp.sync -1;") == "");
}

}  // namespace stratum::emulator
