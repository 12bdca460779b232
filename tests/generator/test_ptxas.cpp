#include <catch2/catch.hpp>

#include "generator/compile/child_process.h"
#include "generator/compile/ptxas.h"
#include "generator/compile/toolchain_error.h"
#include "generator/plan/arch.h"

namespace stratum::gen {
namespace {

TEST_CASE("ptxas: its report") {
  const PtxasReport report = parse_ptxas_log(
      "ptxas info    : (C7519) warpgroup.arrive is injected\n"
      "ptxas info    : 0 bytes gmem, 8 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "    136 bytes stack frame, 200 bytes spill stores, 216 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 3 barriers, 2048 bytes smem, 400 bytes cmem[0]\n"
      "ptxas warning : (C7510) something\n",
      "k");
  CHECK(report.registers == 168);
  CHECK(report.local_bytes == 136);
  CHECK(report.spill_bytes == 416);
  CHECK(report.static_shared_bytes == 2048);
  CHECK(report.warnings == std::vector<std::string>{"ptxas info    : (C7519) warpgroup.arrive is injected",
                                                    "ptxas warning : (C7510) something"});
}

TEST_CASE("ptxas: functions that were not inlined add to the kernel's stack") {
  const PtxasReport report = parse_ptxas_log(
      "ptxas info    : Function properties for k\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 0 barriers, 48 bytes cumulative stack size\n"
      "ptxas info    : Function properties for helper\n"
      "    48 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n",
      "k");
  CHECK(report.local_bytes == 48);
  CHECK(report.spill_bytes == 8);
  CHECK(report.static_shared_bytes == 0);
}

TEST_CASE("ptxas: a report without the numbers is an error, not zeros") {
  CHECK_THROWS_AS(parse_ptxas_log("", "k"), ToolchainError);
  CHECK_THROWS_AS(parse_ptxas_log("ptxas info : Used 32 registers\n", "k"), ToolchainError);
  CHECK_THROWS_AS(
      parse_ptxas_log("ptxas info : Function properties for j\n 0 bytes stack frame, 0 bytes spill stores, 0 "
                      "bytes spill loads\nptxas info : Used 32 registers\n",
                      "k"),
      ToolchainError);
}

TEST_CASE("child process: output, exit code, signal, a program that is not there") {
  const ChildResult plain = run_child({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, "/");
  CHECK(plain.output == "out\nerr\n");
  CHECK(plain.exit_code == 3);
  CHECK(plain.signal == 0);
  CHECK(run_child({"/bin/sh", "-c", "kill -9 $$"}, "/").signal == 9);
  CHECK(run_child({"/bin/pwd"}, "/usr").output == "/usr\n");
  CHECK(run_child({std::filesystem::relative("/bin/pwd").string()}, "/usr").output == "/usr\n");
  CHECK_THROWS_AS(run_child({"/no/such/program"}, "/"), ToolchainError);
}

TEST_CASE("occupancy: by registers, shared memory, threads and blocks") {
  const Arch& sm80 = *find_arch("sm_80");
  CHECK(warps_per_sm(sm80, 32, 0, 256) == 64);
  CHECK(warps_per_sm(sm80, 33, 0, 256) == 48);  // 40 registers a thread are handed out
  CHECK(warps_per_sm(sm80, 255, 0, 128) == 8);
  CHECK(warps_per_sm(sm80, 128, 0, 1024) == 0);  // 16 warps of 128 registers fit, a block has 32
  CHECK(warps_per_sm(sm80, 16, 0, 32) == 32);    // 32 blocks
  CHECK(warps_per_sm(sm80, 32, 101376, 256) == 8);
  CHECK(warps_per_sm(sm80, 32, 47104, 128) == 12);
  CHECK(warps_per_sm(*find_arch("sm_90a"), 168, 232448, 384) == 12);
  CHECK(warps_per_sm(*find_arch("sm_120"), 32, 0, 256) == 48);
  CHECK(warps_per_sm(*find_arch("sm_120"), 32, 101376, 256) == 8);
}

}  // namespace
}  // namespace stratum::gen
