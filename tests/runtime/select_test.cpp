// Which kernel serves a stratum on a device, and what is said where none does.
#include "select.h"

#include <catch2/catch.hpp>

#include "error.h"
#include "support.h"

namespace {

using namespace stratum;
using support::row;

Manifest manifest_of(std::vector<ManifestKernel> rows) { return {.toolchain = {}, .kernels = std::move(rows)}; }

constexpr ComputeCapability kHopper{9, 0};
const Stratum kWanted{.family = "gated", .dtype = "bfloat16", .head_dim = 64, .gate_dim = 32, .group = 4};

std::string chosen(const Manifest& manifest, ComputeCapability capability = kHopper) {
  return select_kernels(manifest, kWanted, "forward", capability).front()->name;
}

std::string refused(const Manifest& manifest, const Stratum& stratum, ComputeCapability capability = kHopper) {
  try {
    select_kernels(manifest, stratum, "forward", capability);
  } catch (const Error& error) {
    REQUIRE(error.status() == STRATUM_NO_KERNEL);
    return error.what();
  }
  FAIL("expected NO_KERNEL");
  return {};
}

}  // namespace

TEST_CASE("The archs that a device runs, best first") {
  using Names = std::vector<std::string>;
  for (const int minor : {0, 6, 7, 9}) CHECK(archs_for({8, minor}) == Names{"sm_80"});
  CHECK(archs_for({9, 0}) == Names{"sm_90a", "sm_90"});
  CHECK(archs_for({10, 0}) == Names{"sm_100a", "sm_100"});
  CHECK(archs_for({10, 3}) == Names{"sm_103a", "sm_100"});
  CHECK(archs_for({12, 0}) == Names{"sm_120a", "sm_120"});
  CHECK(archs_for({12, 1}) == Names{"sm_121a", "sm_120"});
  for (const auto& [major, minor] :
       {std::pair(7, 5), std::pair(9, 1), std::pair(10, 1), std::pair(11, 0), std::pair(13, 0)}) {
    CHECK(archs_for({major, minor}).empty());
  }
}

TEST_CASE("An arch-specific kernel before the portable one, the exact group before any group") {
  const ManifestKernel portable = row("forward", "sm_90", "bfloat16", 64, 32);
  const ManifestKernel portable_exact = row("forward", "sm_90", "bfloat16", 64, 32, 4);
  const ManifestKernel specific = row("forward", "sm_90a", "bfloat16", 64, 32);
  const ManifestKernel specific_exact = row("forward", "sm_90a", "bfloat16", 64, 32, 4);
  const ManifestKernel other_group = row("forward", "sm_90a", "bfloat16", 64, 32, 8);
  CHECK(chosen(manifest_of({portable})) == portable.name);
  CHECK(chosen(manifest_of({portable, portable_exact})) == portable_exact.name);
  CHECK(chosen(manifest_of({portable, portable_exact, specific})) == specific.name);
  CHECK(chosen(manifest_of({portable, portable_exact, specific, specific_exact})) == specific_exact.name);
  CHECK(chosen(manifest_of({portable, other_group})) == portable.name);
  CHECK(chosen(manifest_of({row("forward", "sm_80", "bfloat16", 64, 32), specific}), {8, 9}) ==
        row("forward", "sm_80", "bfloat16", 64, 32).name);
}

TEST_CASE("Variants come in the plan's order") {
  ManifestKernel first = row("forward", "sm_90", "bfloat16", 64, 32), second = first;
  first.name += "_m128";
  first.variant = 0;
  first.when.seq_len = Range{.min = 4096, .max = {}};
  second.name += "_m064";
  second.variant = 1;
  const Manifest manifest = manifest_of({second, first});
  const auto variants = select_kernels(manifest, kWanted, "forward", kHopper);
  REQUIRE(variants.size() == 2);
  CHECK(variants[0]->name == first.name);
  CHECK(variants[1]->name == second.name);
}

TEST_CASE("Nothing found: the key, the nearest, the field that differs, the command") {
  const Manifest manifest = manifest_of({
      row("forward", "sm_80", "bfloat16", 96, 32),
      row("forward", "sm_90", "bfloat16", 64, 32),
      row("forward", "sm_90", "bfloat16", 128, 64),
      row("forward", "sm_90", "float16", 64, 32),
      row("decode", "sm_90", "bfloat16", 96, 32),
  });
  Stratum wanted = kWanted;
  wanted.head_dim = 96;
  CHECK(
      refused(manifest, wanted) ==
      "the pack has no kernel for gated forward bfloat16 head_dim 96 gate_dim 32 group 4 on compute capability 9.0 "
      "(sm_90a, sm_90); the nearest it has is gated forward sm_80 bfloat16 head_dim 96 gate_dim 32 group any, which "
      "differs in arch; to add it, write plans/gated_d96_r32_sm90.json in the project's root as README.md says (Add a "
      "stratum), and run there: make submission PLANS=plans");
  wanted.head_dim = 80;
  CHECK_THAT(refused(manifest, wanted),
             Catch::Contains("the nearest it has is gated forward sm_90 bfloat16 head_dim 64 gate_dim 32 group any, "
                             "which differs in head_dim;"));
  wanted = kWanted;
  CHECK_THAT(refused(manifest, wanted, {7, 5}),
             Catch::Contains("on compute capability 7.5, which Stratum builds no kernels for") &&
                 Catch::Contains("differs in arch") && !Catch::Contains("to add it"));
  CHECK_THAT(refused(manifest_of({}), wanted), !Catch::Contains("nearest"));
}

TEST_CASE("An engine for a stratum that is not bundled, or on a device that is not served") {
  const support::LeakCheck leaks;
  stratum_engine engine = 0;
  support::json config = support::standard_config();
  config["head_dim"] = 96;
  CHECK(stratum_build(config.dump().c_str(), support::standard_pack().c_str(), &engine) == STRATUM_NO_KERNEL);
  CHECK_THAT(support::message(), Catch::Contains("head_dim 96"));
  config = support::standard_config();
  config["device"] = support::kDeviceUnserved;
  CHECK(stratum_build(config.dump().c_str(), support::standard_pack().c_str(), &engine) == STRATUM_NO_KERNEL);
  CHECK_THAT(support::message(), Catch::Contains("compute capability 7.5"));
  CHECK(emulator_calls("cuModuleLoadData") == 0);
}
