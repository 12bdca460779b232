// One tiny kernel a hazard, through the real compilers: each is refused with its reason, and nothing is published.
#include <catch2/catch.hpp>

#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

using nlohmann::json;

struct Hazard {
  const char* operation;
  int threads;
  const char* message;  // must be in what is printed
};

TEST_CASE("hazards: refused when the plan and template are read", "[hazards]") {
  for (const Hazard& hazard : {
           Hazard{"unknown_hole", 64, "fake/unknown_hole.cu:2: no value for the hole @thread_count@"},
           Hazard{"unread_field", 64, "fake/unread_field.cu: the tile field threads has no hole @threads@"},
           Hazard{"system_include", 64, "fake/system_include.cu:2: expected #include \"...\""},
           Hazard{"missing_include", 64, "fake/missing_include.cu: cannot include \"abi/nowhere.h\""},
       }) {
    CAPTURE(hazard.operation);
    const Project project;
    project.only_plan(Project::plan({{hazard.operation, {{"tile", {{"threads", hazard.threads}}}}}}));
    const GenResult result = project.gen({"build"});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains(hazard.message));
    CHECK_FALSE(std::filesystem::exists(project.pack()));
  }
}

TEST_CASE("hazards: refused when the kernel is compiled", "[hazards]") {
  if (!have_toolchain()) return;
  for (const Hazard& hazard : {
           Hazard{"compile_error", 64, "identifier \"undeclared\" is undefined"},
           Hazard{"assembler_error", 64, "ptxas refuses the PTX of fake/assembler_error.cu"},
           Hazard{"two_entries", 64, "expected exactly one entry, got 2"},
           Hazard{"no_entry", 64, "expected exactly one entry, got 0"},
           Hazard{"wrong_symbol", 64, "expected the entry fake_wrong_symbol_sm80_bf16_d64_r32_g0_t64, got another"},
           Hazard{"two_parameters", 64, "expected one parameter, the parameter struct, got 2"},
           Hazard{"wrong_bounds", 64, "launch bounds of 32 threads, but the plan launches 64"},
           Hazard{"clock_read", 64, "reads %clock64"},
           Hazard{"float_atomic", 64, "a floating-point reduction whose order changes between runs"},
           Hazard{"local_memory", 64, "bytes of local memory a thread; allowed: 0"},
           Hazard{"forced_spill", 1024, "accepted: none without `allow_spills` in the plan"},
           Hazard{"static_shared", 64,
                  "100352 + 2048 bytes of dynamic and static shared memory a block; accepted on sm_80: up "
                  "to 101376"},
       }) {
    CAPTURE(hazard.operation);
    const Project project;
    project.only_plan(Project::plan({{hazard.operation, {{"tile", {{"threads", hazard.threads}}}}}}));
    const GenResult result = project.gen({"build"});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err,
               Catch::Contains(hazard.message) && Catch::Contains("1 of 1 kernels failed; cubins is as before"));
    CHECK_FALSE(std::filesystem::exists(project.pack() / "manifest.json"));
    // The log outlives the command.
    const std::string name =
        std::string("fake_") + hazard.operation + "_sm80_bf16_d64_r32_g0_t" + std::to_string(hazard.threads);
    CHECK_FALSE(project.read("build/cache/logs/" + name + ".log").empty());
  }
}

TEST_CASE("hazards: wgmma that ptxas serialises", "[hazards]") {
  if (!have_toolchain()) return;
  const Project project;
  json plan = Project::plan({{"serialised_wgmma", {{"tile", {{"threads", 128}}}}}});
  plan["arch"] = "sm_90a";
  project.only_plan(plan);
  const GenResult result = project.gen({"build"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("ptxas warns: wgmma.mma_async instructions are serialized"));
}

TEST_CASE("hazards: allowed by a plan that gives a reason", "[hazards]") {
  if (!have_toolchain()) return;
  const Project project;
  const json spill = {{"bytes", 400}, {"why", "a test"}};
  json plan = Project::plan({
      {"forced_spill", {{"tile", {{"threads", 1024}}}, {"allow_spills", spill}}},
      {"local_memory", {{"tile", {{"threads", 64}}}, {"allow_spills", spill}}},
      {"bulk_reduction", {{"tile", {{"threads", 64}}}, {"ordered_reduction", "one writer at a time"}}},
  });
  plan["arch"] = "sm_90";
  project.only_plan(plan);
  const GenResult result = project.gen({"build", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Manifest manifest = project.whole_pack();
  REQUIRE(manifest.kernels.size() == 3);
  CHECK(manifest.kernels[0].ordered_reduction == "one writer at a time");
  CHECK(manifest.kernels[0].static_shared_bytes == 256);
  CHECK(manifest.kernels[1].spill_bytes > 0);
  CHECK(manifest.kernels[1].local_bytes > 0);
  CHECK(manifest.kernels[2].allow_spills == SpillAllowance{400, "a test"});
  CHECK(project.gen({"lint"}).exit_code == 0);

  plan["kernels"]["forced_spill"]["allow_spills"]["bytes"] = 8;
  plan["kernels"]["bulk_reduction"].erase("ordered_reduction");
  project.only_plan(plan);
  const GenResult refused = project.gen({"build"});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Catch::Contains("accepted: up to 8 (`allow_spills`)") &&
                              Catch::Contains("only a plan with `ordered_reduction` may"));
  CHECK(project.whole_pack() == manifest);
}

}  // namespace
}  // namespace stratum::gen
