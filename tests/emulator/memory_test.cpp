#include <catch2/catch.hpp>
#include <cstring>

#include "machine/memory_map.h"
#include "support.h"

namespace stratum::emulator {
namespace {

// Each thread copies 16 bytes of its own from `in` to `out`; %rd1 and %rd2 are their addresses.
const std::string kOwn16 = "mul.wide.u32 %rd0, %tid, 16; add.s64 %rd1, %in, %rd0; add.s64 %rd2, %out, %rd0;\n";

}  // namespace

TEST_CASE("loads and stores of all widths") {
  const auto in = random_words(128);
  const auto copies = [&](const std::string& body) { return run_body(kOwn16 + body, in, 128) == in; };
  CHECK(copies("ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1]; st.global.v4.u32 [%rd2], {%r0,%r1,%r2,%r3};"));
  CHECK(copies("ld.global.nc.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1]; st.global.v4.f32 [%rd2], {%r0,%r1,%r2,%r3};"));
  CHECK(
      copies("ld.global.v2.f32 {%f0,%f1}, [%rd1]; ld.global.v2.f32 {%f2,%f3}, [%rd1+8];\n"
             "st.global.v2.f32 [%rd2+8], {%f2,%f3}; st.global.v2.u32 [%rd2], {%f0,%f1};"));
  CHECK(
      copies("ld.global.u64 %rd3, [%rd1]; ld.global.b64 %rd4, [%rd1+8]; st.global.u64 [%rd2], %rd3;\n"
             "st.global.b64 [%rd2+8], %rd4;"));
  CHECK(
      copies("ld.global.u32 %r0, [%rd1]; ld.global.s32 %r1, [%rd1+4]; ld.global.f32 %f0, [%rd1+8];\n"
             "ld.global.b32 %r2, [%rd1+12]; st.global.u32 [%rd2], %r0; st.global.u32 [%rd2+4], %r1;\n"
             "st.global.f32 [%rd2+8], %f0; st.global.b32 [%rd2+12], %r2;"));
}

TEST_CASE("a destination that is also the address gets the value") {
  const auto in = random_words(128);
  const auto out = run_body(kOwn16 + "ld.global.u64 %rd1, [%rd1+8]; st.global.u64 [%rd2], %rd1;", in, 128);
  for (size_t i = 0; i < 32; ++i) {
    CHECK(out[4 * i] == in[4 * i + 2]);
    CHECK(out[4 * i + 1] == in[4 * i + 3]);
  }
}

TEST_CASE("a word is widened into a 64-bit register") {
  const auto in = random_words(128);
  const auto out = run_body(kOwn16 +
                                "ld.global.s32 %rd3, [%rd1]; ld.global.cg.u32 %rd4, [%rd1];\n"
                                "st.global.u64 [%rd2], %rd3; st.global.u64 [%rd2+8], %rd4;",
                            in, 128);
  for (size_t i = 0; i < 32; ++i) {
    CHECK(out[4 * i] == in[4 * i]);
    CHECK(out[4 * i + 1] == (in[4 * i] >> 31 ? 0xffffffff : 0));
    CHECK(out[4 * i + 2] == in[4 * i]);
    CHECK(out[4 * i + 3] == 0);
  }
}

TEST_CASE("only lanes under the guard read and write") {
  const auto in = random_words(128);
  const auto out = run_body(kOwn16 +
                                "setp.lt.u32 %p0, %tid, 5; mov.u32 %r0, 7; @!%p0 mov.u64 %rd1, 0;\n"
                                "@%p0 ld.global.u32 %r0, [%rd1]; st.global.u32 [%rd2], %r0;\n"
                                "@!%p0 st.global.u32 [%rd2+4], %r0;",
                            in, 128);
  for (size_t i = 0; i < 32; ++i) {
    CHECK(out[4 * i] == (i < 5 ? in[4 * i] : 7));
    CHECK(out[4 * i + 1] == (i < 5 ? 0 : 7));
  }
}

TEST_CASE("shared memory, by 32-bit and 64-bit addresses") {
  const auto in = random_words(128);
  for (const std::string base : {"mov.u64 %rd5, dynamic; add.s64 %rd6, %rd5, %rd0;",
                                 "mov.u32 %r9, dynamic; shl.b32 %r8, %tid, 4; add.s32 %r9, %r9, %r8;"}) {
    const std::string at = base.find("%rd6") != std::string::npos ? "%rd6" : "%r9";
    const auto copies = [&](const std::string& store, const std::string& load) {
      const std::string body = kOwn16 + base + "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1];\n" + store + "\n" + load +
                               "\nst.global.v4.u32 [%rd2], {%r4,%r5,%r6,%r7};";
      std::string text;
      for (const char c : body) text += c == '#' ? at : std::string(1, c);
      return run_body(text, in, 128, {.shared_bytes = 512}) == in;
    };
    CHECK(
        copies("st.shared.u32 [#], %r0; st.shared.f32 [#+4], %r1; st.shared.b32 [#+8], %r2; st.shared.u32 [#+12], %r3;",
               "ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [#];"));
    CHECK(copies("st.shared.v2.f32 [#], {%r0,%r1}; st.shared.v2.u32 [#+8], {%r2,%r3};",
                 "ld.shared.v2.f32 {%r4,%r5}, [#]; ld.shared.u32 %r6, [#+8]; ld.shared.f32 %r7, [#+12];"));
    CHECK(copies("st.shared.v4.f32 [#], {%r0,%r1,%r2,%r3};", "ld.shared.v4.f32 {%r4,%r5,%r6,%r7}, [#];"));
    CHECK(copies("st.shared.v4.u32 [#], {%r0,%r1,%r2,%r3}; ld.shared.u64 %rd3, [#+8]; st.shared.u64 [#+8], %rd3;",
                 "ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [#];"));
  }
}

TEST_CASE("parameters are read at their offsets, also through a register") {
  const std::string module = R"(
.version 9.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u32 first, .param .align 8 .b8 second[24])
{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<2>;
ld.param.u64 %rd0, [second+16];
mov.b64 %rd1, second;
ld.param.u32 %r0, [first];
ld.param.v2.u32 {%r1, %r2}, [second];
ld.param.f32 %f0, [%rd1+8];
ld.param.s32 %rd2, [%rd1+12];
add.s64 %rd1, %rd1, 8;
ld.param.v2.f32 {%r3, %r4}, [%rd1+-8];
st.global.u32 [%rd0], %r0;
st.global.v2.u32 [%rd0+8], {%r1, %r2};
st.global.v2.u32 [%rd0+16], {%r3, %r4};
st.global.f32 [%rd0+24], %f0;
st.global.u64 [%rd0+32], %rd2;
ret;
}
)";
  alignas(8) uint32_t out[10] = {};
  struct {
    uint32_t first = 11, gap = 0, second[4] = {21, 22, 23, 0xfffffff0};
    uint32_t* out;
  } parameters;
  parameters.out = out;
  const Kernel kernel = Kernel::load(module, "copy");
  REQUIRE(kernel.parameter_bytes() == sizeof parameters);
  run(kernel, {.parameters = &parameters});
  const uint32_t expected[10] = {11, 0, 21, 22, 21, 22, 23, 0, 0xfffffff0, 0xffffffff};
  for (size_t i = 0; i < 10; ++i) CHECK(out[i] == expected[i]);
}

TEST_CASE("static shared variables come before the dynamic ones, each aligned") {
  const std::string body =
      ".shared .align 4 .b8 small[5]; .shared .align 32 .b8 large[64];\n"
      "mov.u32 %r0, small; mov.u32 %r1, large; mov.u32 %r2, dynamic;\n"
      "st.global.u32 [%out], %r0; st.global.u32 [%out+4], %r1; st.global.u32 [%out+8], %r2;";
  const auto out = run_body(body, {}, 3, {.threads = 1});
  CHECK(out == std::vector<uint32_t>{1024, 1056, 1120});
  CHECK(Kernel::load(module_of(body), "test").static_shared_bytes() == 96);
}

TEST_CASE("shared memory and registers hold NaN until they are written") {
  const auto out = run_body("mov.u32 %r1, dynamic; ld.shared.u32 %r0, [%r1+64]; st.global.u32 [%out], %r0;", {}, 1,
                            {.threads = 1, .shared_bytes = 128});
  CHECK(out[0] == 0xffffffff);
}

TEST_CASE("special registers") {
  std::string body =
      "mov.u32 %r20, %tid.y; mov.u32 %r21, %tid.z; mov.u32 %r22, %ntid.x; mov.u32 %r23, %ntid.y;\n"
      "mad.lo.s32 %r0, %r21, %r23, %r20; mad.lo.s32 %r0, %r0, %r22, %tid;\n"
      "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;\n"
      "mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y; mov.u32 %r6, %nctaid.z;\n"
      "mov.u32 %r7, %ntid.z; mov.u32 %r8, %laneid;\n"
      "mad.lo.s32 %r9, %r3, %r5, %r2; mad.lo.s32 %r9, %r9, %r4, %r1; mad.lo.s32 %r9, %r9, 42, %r0;\n"
      "mul.wide.u32 %rd0, %r9, 64; add.s64 %rd0, %out, %rd0;\n"
      "st.global.v4.u32 [%rd0], {%tid, %r20, %r21, %r22}; st.global.v4.u32 [%rd0+16], {%r23, %r7, %r1, %r2};\n"
      "st.global.v4.u32 [%rd0+32], {%r3, %r4, %r5, %r6}; st.global.u32 [%rd0+48], %r8;";
  alignas(16) static uint32_t out[24 * 42 * 16];
  const uint64_t parameters[] = {0, reinterpret_cast<uint64_t>(out)};
  run(Kernel::load(module_of(body), "test"), {.grid = {2, 3, 4}, .block = {7, 3, 2}, .parameters = parameters});
  for (uint32_t block = 0; block < 24; ++block) {
    for (uint32_t thread = 0; thread < 42; ++thread) {
      const uint32_t* found = out + (block * 42 + thread) * 16;
      const uint32_t expected[] = {thread % 7,    thread / 7 % 3, thread / 21, 7, 3, 2,          block % 2,
                                   block / 2 % 3, block / 6,      2,           3, 4, thread % 32};
      for (size_t i = 0; i < std::size(expected); ++i) {
        CAPTURE(block, thread, i);
        REQUIRE(found[i] == expected[i]);
      }
    }
  }
}

TEST_CASE("accesses that no memory can serve are faults") {
  const Setup one{.threads = 1, .shared_bytes = 64};
  using Catch::Contains;
  CHECK_THAT(fault_of("ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%in+4];", one),
             Contains("line 10") && Contains("multiple of 16"));
  CHECK_THAT(fault_of("\nst.global.u32 [%out+2], %tid;", one), Contains("line 11") && Contains("multiple of 4"));
  CHECK_THAT(fault_of("mov.u64 %rd0, 0; ld.global.u32 %r0, [%rd0+16];", one),
             Contains("0x10") && Contains("no memory"));
  CHECK_THAT(fault_of("mov.u64 %rd0, -8; ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd0+-8];", one), Contains("no memory"));
  CHECK_THAT(fault_of("mov.u32 %r1, dynamic; ld.shared.u32 %r0, [%r1+64];", one),
             Contains("0x440, lane 0: outside 0x400 to 0x440"));
  CHECK_THAT(fault_of("mov.u32 %r1, dynamic; st.shared.v4.u32 [%r1+52], {%r0,%r0,%r0,%r0};", one),
             Contains("multiple of 16"));
  CHECK_THAT(fault_of("mov.u32 %r1, dynamic; st.shared.u64 [%r1+-8], %rd0;", one), Contains("outside"));
  CHECK_THAT(fault_of("mov.u32 %r1, 0; ld.shared.u32 %r0, [%r1];", one), Contains("outside"));
  CHECK_THAT(fault_of("mov.u64 %rd1, 4294968320; ld.shared.u32 %r0, [%rd1];", one), Contains("outside"));
  CHECK_THAT(fault_of("ld.param.u64 %rd0, [out+8];", one), Contains("parameter") && Contains("outside 0x0 to 0x10"));
  CHECK(fault_of("mov.u32 %r1, dynamic; ld.shared.u32 %r0, [%r1+60];", one) == "");
}

TEST_CASE("with checks, global memory is what the map has") {
  std::vector<uint32_t> memory(64);
  const uint64_t first = reinterpret_cast<uint64_t>(memory.data());
  std::vector<uint8_t> state(128, kUnwritten);
  const auto run_it = [&](Region region, const std::string& body, uint32_t threads) {
    MemoryMap map;
    region.first = first, region.bytes = 128;
    map.add_array(region);
    map.prepare();
    const uint64_t parameters[] = {0, first};
    run(Kernel::load(module_of("mul.wide.u32 %rd0, %tid, 4; add.s64 %rd0, %out, %rd0;\n" + body), "test"),
        {.block = {threads, 1, 1},
         .parameters = parameters,
         .options = {.checks = true, .threads = 1, .memory = &map}});
  };
  using Catch::Contains;
  const Region o{.name = "o", .first = 0, .bytes = 0, .axes = {}, .writable = true, .freed = false, .state = nullptr};
  Region fresh = o, input = o, gone = o, rows = o;
  fresh.state = state.data();
  input.writable = false;
  gone.freed = true;
  rows.axes = {{2, 64}, {12, 4}};
  const std::string store = "st.global.u32 [%rd0], %tid;", load = "ld.global.u32 %r0, [%rd0];";
  CHECK_NOTHROW(run_it(o, store + load, 32));
  CHECK_THROWS_WITH(run_it(o, store, 33), Contains("bounds: write of 4 bytes") && Contains("lane 0: 0 bytes behind") &&
                                              Contains("the end of o (128 bytes)") && Contains("warp 1"));
  CHECK_THROWS_WITH(run_it(input, store, 32), Contains("bounds") && Contains("byte 0 of o, lane 0: it is an input"));
  CHECK_THROWS_WITH(run_it(gone, load, 32), Contains("freed: read of 4 bytes") && Contains("o was freed"));
  CHECK_NOTHROW(run_it(rows, store, 12));
  CHECK_THROWS_WITH(run_it(rows, store, 13), Contains("48 bytes into o (128 bytes), between its elements"));
  // What nobody wrote may be read and moved, but not used; what is written stays so for later launches.
  CHECK_NOTHROW(run_it(fresh, load + "mov.b32 %r1, %r0;", 32));
  CHECK_THROWS_WITH(run_it(fresh, load + "\nadd.s32 %r1, %r0, 1;", 32),
                    Contains("line 12: unwritten") && Contains("read at line 11: byte 124 of o, which nobody wrote"));
  CHECK_NOTHROW(run_it(fresh, store, 31));
  CHECK_NOTHROW(run_it(fresh, load + "add.s32 %r1, %r0, 1;", 31));
  CHECK_THROWS_WITH(run_it(fresh, load + "add.s32 %r1, %r0, 1;", 32), Contains("unwritten") && Contains("lane 31"));
  state[8] = kReleased;
  CHECK_THROWS_WITH(run_it(fresh, load, 31),
                    Contains("freed: read of 4 bytes") && Contains("byte 8 of o, lane 2: they were given back"));
  CHECK_THROWS_WITH(run_it(fresh, store, 31),
                    Contains("freed") && Contains("byte 8 of o, lane 2: they were given back"));
}

}  // namespace stratum::emulator
