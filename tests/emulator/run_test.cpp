#include <catch2/catch.hpp>

#include "ptx/module.h"
#include "support.h"

namespace stratum::emulator {
namespace {

using Catch::Contains;

std::string load_error(const std::string& body) {
  try {
    Kernel::load(module_of(body), "test");
  } catch (const ptx::ParseError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what the emulator doesn't know is an error of loading that names it") {
  CHECK_THAT(load_error("\nadd.rz.f32 %f0, %f1, %f2;"), Contains("PTX line 11: unknown instruction form 'add.rz.f32'"));
  CHECK_THAT(load_error("mov.u32 %r0, %clock;"), Contains("line 10: unknown special register '%clock'"));
  CHECK_THAT(load_error("ld.shared.u32 %r0, [nothing];"),
             Contains("'nothing' is neither a parameter nor shared memory"));
  CHECK_THAT(load_error("bra NOWHERE;"), Contains("no label 'NOWHERE'"));
  CHECK_THAT(load_error("@%r0 ret;"), Contains("the guard is not a predicate"));
}

TEST_CASE("operands must fit their form") {
  CHECK_THAT(load_error("add.s32 %r0, %r1;"), Contains("the operands of 'add.s32' don't fit, expected w=ww"));
  CHECK_THAT(load_error("add.s32 %rd0, %r1, %r2;"), Contains("don't fit"));
  CHECK_THAT(load_error("add.s32 5, %r1, %r2;"), Contains("don't fit"));
  CHECK_THAT(load_error("add.s32 %r0, %r1, %p0;"), Contains("don't fit"));
  CHECK_THAT(load_error("or.pred %p0, %p1, !%p2;"), Contains("don't fit"));
  CHECK_THAT(load_error("ld.global.v4.u32 {%r0,%r1}, [%rd0];"), Contains("don't fit"));
  CHECK_THAT(load_error("ld.global.u32 %r0, [%r1];"), Contains("not a register for an address"));
  CHECK_THAT(load_error("add.s32 %r0, %r1, 0x100000000;"), Contains("more than 32 bits"));
  CHECK_THAT(load_error("add.s32 %r0, %r1, -2147483649;"), Contains("more than 32 bits"));
  CHECK_THAT(load_error("add.s16 %h0, %h1, 0x10000;"), Contains("more than 16 bits"));
  CHECK(load_error("add.s32 %r0, %r1, -2147483648; add.s32 %r0, %r1, 0xffffffff;") == "");
}

TEST_CASE("more registers than are told apart are an error") {
  std::string body = ".reg .b32 %many<65536>;\n";
  for (int i = 0; i < 65536; ++i) body += "mov.u32 %many" + std::to_string(i) + ", %tid;\n";
  CHECK_THAT(load_error(body), Contains("registers and constants"));
}

TEST_CASE("an entry that isn't there") {
  CHECK_THROWS_WITH(Kernel::load(module_of(""), "other"), Contains("no entry 'other' in a module with: test"));
  CHECK(Kernel::load(module_of(""), "test").name() == "test");
}

TEST_CASE("a launch must have blocks and threads") {
  const Kernel kernel = Kernel::load(module_of(""), "test");
  const uint64_t parameters[] = {0, 0};
  CHECK_THROWS_WITH(run(kernel, {.grid = {1, 0, 1}, .parameters = parameters}), Contains("grid"));
  CHECK_THROWS_WITH(run(kernel, {.block = {0, 1, 1}, .parameters = parameters}),
                    Contains("expected 1 to 1024 threads"));
  CHECK_THROWS_WITH(run(kernel, {.block = {1025, 1, 1}, .parameters = parameters}), Contains("1025 x 1 x 1"));
  CHECK_THROWS_WITH(run(kernel, {.block = {65536, 65536, 1}, .parameters = parameters}),
                    Contains("expected 1 to 1024"));
}

TEST_CASE("blocks run on several threads with the same result") {
  std::string body =
      "mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0; mov.u32 %r0, %r1;\n"
      "LOOP: mad.lo.s32 %r0, %r0, 1664525, 1013904223; add.s32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, %r1; @%p0 bra LOOP;\n"
      "mul.wide.u32 %rd0, %r1, 128; mul.wide.u32 %rd1, %tid, 4; add.s64 %rd0, %rd0, %rd1;\n"
      "add.s64 %rd0, %rd0, %out; st.global.u32 [%rd0], %r0;";
  const auto with = [&](unsigned threads) {
    Setup setup{.blocks = 300};
    setup.options.threads = threads;
    return run_body(body, {}, 300 * 32, setup);
  };
  const auto one = with(1);
  CHECK(with(8) == one);
  CHECK(with(0) == one);
  CHECK(one[32 * 299] != one[32 * 298]);
}

TEST_CASE("blocks of a launch that runs together can wait for each other") {
  // Each block counts itself in and goes on when all have; the number that it then reads is everybody's.
  const std::string body =
      "atom.global.add.u32 %r0, [%out], 1; membar.gl;\n"
      "LOOP: ld.volatile.global.u32 %r1, [%out]; setp.lt.u32 %p0, %r1, 20; @%p0 bra LOOP;\n"
      "mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd0, %r2, 4; add.s64 %rd0, %rd0, %out; st.global.u32 [%rd0+4], %r1;";
  Setup setup{.threads = 1, .blocks = 20};
  setup.options.threads = 2;
  setup.options.limit = 100000;
  CHECK_THAT(fault_of(body, setup), Contains("limit: no end after"));
  setup.options.together = true;
  for (const uint64_t seed : {0, 1, 2}) {
    setup.options.seed = seed;
    for (const bool checks : {false, true}) {
      setup.options.checks = checks;
      CHECK(run_body(body, {}, 21, setup) == std::vector<uint32_t>(21, 20));
    }
  }
}

TEST_CASE("of several blocks with a fault the first is told") {
  Setup setup{.blocks = 200};
  setup.options.threads = 8;
  for (int repeat = 0; repeat < 20; ++repeat) {
    CHECK_THAT(fault_of("mov.u32 %r1, %ctaid.x; setp.lt.u32 %p0, %r1, 50; @%p0 bra FINE; mov.u64 %rd0, 4;\n"
                        "ld.global.u32 %r0, [%rd0];\nFINE:",
                        setup),
               Contains("line 11") && Contains("(block 50, 0, 0, warp 0)"));
  }
}

TEST_CASE("a fault has its parts") {
  try {
    run_body("\n\nst.global.u32 [%out+1], %tid;", {}, 4, {.threads = 1});
    FAIL("no fault");
  } catch (const Fault& fault) {
    CHECK(fault.kernel == "test");
    CHECK(fault.line == 12);
    CHECK_THAT(fault.text, Contains("not a multiple of 4"));
    CHECK(fault.check == Check::Misaligned);
    CHECK(fault.what() == "test, PTX line 12: misaligned: " + fault.text);
  }
}

}  // namespace stratum::emulator
