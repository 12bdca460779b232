#include <catch2/catch.hpp>

#include "machine/memory_map.h"
#include "support.h"

namespace stratum::emulator {

TEST_CASE("threads of all blocks take numbers from one counter, each of them another") {
  const auto out = run_body("atom.global.add.u32 %r0, [%out], 1; mul.wide.u32 %rd0, %r0, 4; add.s64 %rd0, %out, %rd0;\n"
                            "atom.global.add.u32 %r1, [%rd0+4], 7;",
                            {}, 1 + 40 * 8, {.threads = 40, .blocks = 8});
  CHECK(out[0] == 320);
  for (size_t i = 1; i <= 320; ++i) CHECK(out[i] == 7);
}

TEST_CASE("atomic operations change memory and return what was there") {
  // One thread; the memory at %out+4 i begins as 5, or as -5 where the operation is signed.
  const auto changes = [](const std::string& operation, uint32_t before, uint32_t after) {
    const auto out = run_body("mov.u32 %r0, " + std::to_string(before) + "; st.global.u32 [%out], %r0;\n" +
                                  "atom.global." + operation + "; st.global.u32 [%out+4], %r1;",
                              {}, 2, {.threads = 1});
    CHECK(out[0] == after);
    CHECK(out[1] == before);
  };
  changes("add.s32 %r1, [%out], 4294967290", 5, 0xffffffff);
  changes("min.u32 %r1, [%out], 4294967290", 5, 5);
  changes("min.s32 %r1, [%out], 4294967290", 5, 4294967290);
  changes("max.u32 %r1, [%out], 4294967290", 5, 4294967290);
  changes("max.s32 %r1, [%out], 4294967290", 5, 5);
  changes("and.b32 %r1, [%out], 6", 5, 4);
  changes("or.b32 %r1, [%out], 6", 5, 7);
  changes("inc.u32 %r1, [%out], 6", 5, 6);
  changes("inc.u32 %r1, [%out], 5", 5, 0);
  changes("inc.u32 %r1, [%out], 4", 5, 0);
  changes("dec.u32 %r1, [%out], 6", 5, 4);
  changes("dec.u32 %r1, [%out], 4", 5, 4);
  changes("dec.u32 %r1, [%out], 6", 0, 6);
  changes("exch.b32 %r1, [%out], 9", 5, 9);
  changes("cas.b32 %r1, [%out], 5, 9", 5, 9);
  changes("cas.b32 %r1, [%out], 6, 9", 5, 5);
}

TEST_CASE("64 bits at once") {
  const auto out = run_body("mov.u64 %rd0, 4294967295; atom.global.exch.b64 %rd1, [%out], %rd0;\n"
                            "atom.global.add.u64 %rd2, [%out], 2; atom.global.cas.b64 %rd3, [%out], 4294967297, 3;\n"
                            "st.global.u64 [%out+8], %rd1; st.global.u64 [%out+16], %rd2;\n"
                            "st.global.u64 [%out+24], %rd3;",
                            {}, 8, {.threads = 1});
  CHECK(out == std::vector<uint32_t>{3, 0, 0, 0, 0xffffffff, 0, 1, 1});
}

TEST_CASE("a counter that nobody set is a fault where its value is used") {
  alignas(8) std::array<uint32_t, 2> counter{};
  std::array<uint8_t, 8> state{};
  MemoryMap map;
  const auto address = reinterpret_cast<uint64_t>(counter.data());
  map.add_allocation({.name = "the counter", .first = address, .bytes = 8, .axes = {}, .state = state.data()});
  map.prepare();
  const std::string take = "mov.u64 %rd0, " + std::to_string(address) + "; atom.global.add.u32 %r0, [%rd0], 1;\n";
  const Setup setup{.options = {.checks = true, .memory = &map}};
  CHECK(fault_of(take, setup) == "");
  CHECK(state[0] == kUnwritten);
  CHECK_THAT(fault_of(take + "setp.lt.u32 %p0, %r0, 5;", setup),
             Catch::Contains("line 11: unwritten: operand 2") && Catch::Contains("line 10: byte 0 of the counter"));
}

TEST_CASE("with a counter that was not reset, a launch leaves its rows unwritten") {
  // Blocks take rows of 32 words from the counter at %in until all four are taken.
  const std::string take_rows =
      "take: setp.eq.u32 %p0, %tid, 0;\n"
      "mov.u32 %r0, 0; @%p0 atom.global.add.u32 %r0, [%in], 1;\n"
      "shfl.sync.idx.b32 %r0|%p2, %r0, 0, 31, 0xffffffff; setp.ge.u32 %p1, %r0, 4; @%p1 ret;\n"
      "mad.lo.s32 %r1, %r0, 32, %tid; mul.wide.u32 %rd0, %r1, 4; add.s64 %rd0, %out, %rd0;\n"
      "st.global.u32 [%rd0], %r1; bra take;";
  const std::string sum_rows = "mul.wide.u32 %rd0, %tid, 16; add.s64 %rd0, %out, %rd0;\n"
                               "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd0];\nadd.s32 %r0, %r1, %r2;";
  std::array<uint32_t, 1> counter{};
  const auto launch = [&](const std::string& body, std::vector<uint32_t>& rows, std::vector<uint8_t>& state) {
    MemoryMap map;
    const auto first_of = [](const auto& memory) { return reinterpret_cast<uint64_t>(memory.data()); };
    map.add_allocation({.name = "counter", .first = first_of(counter), .bytes = 4, .axes = {}});
    map.add_array({.name = "rows", .first = first_of(rows), .bytes = 4 * rows.size(), .axes = {}, .state = state.data()});
    map.prepare();
    const uint64_t parameters[] = {first_of(counter), first_of(rows)};
    run(Kernel::load(module_of(body), "test"),
        {.grid = {3, 1, 1}, .block = {32, 1, 1}, .parameters = parameters, .options = {.checks = true, .memory = &map}});
  };
  std::vector<uint32_t> first(128), second(128);
  std::vector<uint8_t> first_state(512), second_state(512);
  launch(take_rows, first, first_state);
  CHECK(counter[0] == 4 + 3);
  CHECK_NOTHROW(launch(sum_rows, first, first_state));
  launch(take_rows, second, second_state);
  CHECK_THROWS_WITH(launch(sum_rows, second, second_state),
                    Catch::Contains("line 12: unwritten") && Catch::Contains("of rows, which nobody wrote"));
  counter[0] = 0;
  launch(take_rows, second, second_state);
  CHECK_NOTHROW(launch(sum_rows, second, second_state));
}

}  // namespace stratum::emulator
