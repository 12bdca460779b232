// A family's kernels for one chip, in a folder of their own beside the portable ones.
#include <catch2/catch.hpp>

#include "abi/gated_sm90a.h"
#include "generator/plan/family.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

using nlohmann::json;

// The fake family's project with the real headers of the ABI.
struct ChipProject : Project {
  ChipProject() {
    std::filesystem::copy(std::filesystem::path(STRATUM_SOURCE_DIR) / "templates/abi", templates() / "abi");
  }
};

json chip_plan(const json& tile) {
  json plan = Project::plan({{"scale", {{"tile", tile}}}});
  plan["family"] = "fake_sm90a";
  plan["arch"] = "sm_90a";
  return plan;
}

TEST_CASE("chip family: parameters with tensor maps and a cluster reach the manifest, beside the portable kernel") {
  require_toolchain();
  const ChipProject project;
  project.only_plan(Project::plan({{"scale", {{"tile", {{"threads", 64}, {"items", 1}}}}}}));
  project.write("templates/plans/chip.json", chip_plan({{"tile_m", 128}, {"cluster", 2}, {"blocks_per_sm", 1}}).dump());
  const GenResult result = project.gen({"build", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Manifest manifest = project.whole_pack();
  REQUIRE(manifest.kernels.size() == 2);
  CHECK(manifest.kernels[0].name == "fake_scale_sm80_bf16_d64_r32_g0_t64i1");
  const ManifestKernel& kernel = manifest.kernels[1];
  CHECK(kernel.name == "fake_scale_sm90a_bf16_d64_r32_g0_m128");
  CHECK(kernel.key.family == "fake");
  CHECK(kernel.params == KernelParams{"GatedForwardSm90aParams", sizeof(abi::GatedForwardSm90aParams)});
  CHECK(kernel.block == 384);
  CHECK(kernel.cluster == 2);
  CHECK(kernel.shared_bytes == 128 + 128 * 64 * 2);
  CHECK(kernel.tile == std::map<std::string, int64_t>{{"blocks_per_sm", 1}, {"cluster", 2}, {"tile_m", 128}});
  CHECK(project.gen({"lint"}).exit_code == 0);
  CHECK(project.gen({"verify"}).exit_code == 0);
}

TEST_CASE("chip family: a plan for another chip or other dimensions is refused") {
  const ChipProject project;
  const auto refused = [&](const char* field, const json& value) {
    json plan = chip_plan({{"tile_m", 128}, {"cluster", 1}, {"blocks_per_sm", 1}});
    plan[field] = value;
    project.only_plan(plan);
    const GenResult result = project.gen({"build"});
    CHECK(result.exit_code == 1);
    return result.err;
  };
  CHECK_THAT(refused("arch", "sm_90"), Catch::Contains("arch: expected one of sm_90a"));
  CHECK_THAT(refused("head_dim", 96), Catch::Contains("head_dim: expected one of 64, 128, got 96"));
}

TEST_CASE("chip family: what the runtime reads of a kernel's tile, every plan gives") {
  const Family family = read_family(std::filesystem::path(STRATUM_SOURCE_DIR) / "templates", "gated/sm90a");
  REQUIRE(family.operations.size() == 7);
  for (const auto& [name, operation] : family.operations) {
    CAPTURE(name);
    if (name == "decode") {
      CHECK(operation.tile.contains("blocks_per_sm"));
      continue;
    }
    CHECK(operation.tile.contains("tile_n"));
    const bool by_queries = name == "backward_delta" || name == "backward_round";  // a block takes tile_n queries
    CHECK((by_queries || operation.tile.contains("tile_m")));
    CHECK(operation.tile.at("tile_n").max.value_or(0) <= 256);  // rows of a tensor map's box
  }
}

}  // namespace
}  // namespace stratum::gen
