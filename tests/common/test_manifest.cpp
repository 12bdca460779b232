#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/input_error.h"
#include "common/manifest.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"

namespace stratum {
namespace {

using nlohmann::json;

ManifestKernel make_kernel() {
  ManifestKernel kernel;
  kernel.key = {"gated", "forward", "sm_80", "bfloat16", 128, 64, 0, {"turbo"}};
  kernel.suffix = "m128n64";
  kernel.name = kernel_name(kernel.key, "fwd", kernel.suffix);
  kernel.when = {.seq_len = Range{1, std::nullopt}, .batch = std::nullopt};
  kernel.tile = {{"tile_m", 128}, {"tile_n", 64}};
  kernel.plan = "plans/gated_d128_r64_sm80.json";
  kernel.allow_spills = SpillAllowance{64, "measured"};
  kernel.ordered_reduction = "one writer";
  kernel.build_key = sha256_hex("key");
  kernel.cubin = {"a.cubin.zst", sha256_hex("cubin"), 5};
  kernel.ptx = {"a.ptx.zst", sha256_hex("ptx"), 3};
  kernel.params = {"GatedForwardParams", 224};
  kernel.block = 256;
  kernel.cluster = 2;
  kernel.shared_bytes = 98304;
  kernel.registers = 238;
  kernel.spill_bytes = 16;
  kernel.local_bytes = 8;
  kernel.static_shared_bytes = 4;
  return kernel;
}

Manifest make_manifest() { return {.toolchain = {"13.0.88", "13.0.88"}, .kernels = {make_kernel()}}; }

// The refusal of a manifest after `change`, with its self-hash made right again.
std::string refusal(const std::function<void(json&)>& change) {
  json document = json::parse(serialise_manifest(make_manifest()));
  change(document);
  document.erase("sha256");
  document["sha256"] = sha256_hex(document.dump());
  try {
    parse_manifest(document.dump(), "manifest.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("key: name and description") {
  KernelKey key{"gated", "forward", "sm_90a", "float16", 64, 32, 8, {}};
  CHECK(kernel_name(key, "fwd", "m128n128") == "gated_fwd_sm90a_fp16_d64_r32_g8_m128n128");
  key.flags = {"a", "b"};
  key.group = 0;
  CHECK(kernel_name(key, "fwd", "") == "gated_fwd_sm90a_fp16_d64_r32_g0_a_b");
  CHECK(describe_key(key) == "gated forward sm_90a float16 head_dim 64 gate_dim 32 group any flags a,b");
}

TEST_CASE("manifest: written and read back") {
  Manifest manifest = make_manifest();
  ManifestKernel plain = make_kernel();
  plain.key.flags = {};
  plain.allow_spills.reset();
  plain.ordered_reduction.reset();
  plain.when = {};
  plain.name = kernel_name(plain.key, "fwd", plain.suffix);
  manifest.kernels.insert(manifest.kernels.begin(), plain);
  const std::string text = serialise_manifest(manifest);
  CHECK(text == serialise_manifest(manifest));
  CHECK(parse_manifest(text, "manifest.json") == manifest);
  CHECK(manifest.find(plain.name) == &manifest.kernels[0]);
  CHECK(manifest.find("gated") == nullptr);
  CHECK(json::parse(text)["kernels"][1]["params"] == json{{"struct", "GatedForwardParams"}, {"bytes", 224}});
}

TEST_CASE("manifest: the empty pack") {
  const Manifest empty{.toolchain = {"1", "2"}, .kernels = {}};
  CHECK(parse_manifest(serialise_manifest(empty), "manifest.json") == empty);
}

TEST_CASE("manifest: the self-hash is of the canonical form, so only content counts") {
  const std::string text = serialise_manifest(make_manifest());
  CHECK(parse_manifest(json::parse(text).dump(7), "manifest.json") == make_manifest());
  std::string altered = text;
  altered.replace(altered.find("98304"), 5, "98305");
  CHECK_THROWS_WITH(parse_manifest(altered, "manifest.json"),
                    Catch::StartsWith("manifest.json: sha256: the manifest was altered"));
}

TEST_CASE("manifest: refusals name the field") {
  CHECK(refusal([](json&) {}) == "accepted");
  CHECK(refusal([](json& m) { m["schema"] = 2; }) ==
        "manifest.json: schema: expected 1 (a pack of another version of Stratum?), got 2");
  CHECK(refusal([](json& m) { m.erase("toolchain"); }) == "manifest.json: toolchain: required, but missing");
  CHECK(refusal([](json& m) { m["kernels"][0]["registers"] = 256; }) ==
        "manifest.json: kernels[0].registers: expected an integer from 1 to 255, got 256");
  CHECK(refusal([](json& m) { m["kernels"][0]["key"]["dtype"] = "float32"; }) ==
        "manifest.json: kernels[0].key.dtype: expected one of bfloat16, float16, got \"float32\"");
  CHECK(refusal([](json& m) { m["kernels"][0]["key"]["head_dim"] = "64"; }) ==
        "manifest.json: kernels[0].key.head_dim: expected an integer from 1 to 2147483647, got \"64\"");
  CHECK(refusal([](json& m) { m["kernels"][0]["cubin"]["file"] = "../a"; }) ==
        "manifest.json: kernels[0].cubin.file: expected a file's name without a folder, got \"../a\"");
  CHECK(refusal([](json& m) { m["kernels"][0]["cubin"]["sha256"] = "12"; }) ==
        "manifest.json: kernels[0].cubin.sha256: expected 64 lower-case hexadecimal digits, got \"12\"");
  CHECK(refusal([](json& m) { m["kernels"][0]["speed"] = 1; }).find("manifest.json: kernels[0].speed: unknown field") ==
        0);
  CHECK(refusal([](json& m) {
          m["kernels"].push_back(m["kernels"][0]);
        }).find("manifest.json: kernels[1].name: rows must be sorted by name with none twice") == 0);
  CHECK(refusal([](json& m) { m["kernels"][0]["variant"] = 1; }).find("must be numbered 0, 1, ...; got 1") !=
        std::string::npos);
  CHECK_THROWS_WITH(parse_manifest("{\"schema\": 1", "manifest.json"),
                    Catch::StartsWith("manifest.json: not valid JSON"));
}

TEST_CASE("manifest: when a variant is launched") {
  const When when{.seq_len = Range{std::nullopt, 1024}, .batch = Range{2, 4}};
  CHECK(when.holds(0, 2));
  CHECK(when.holds(1024, 4));
  CHECK_FALSE(when.holds(1025, 4));
  CHECK_FALSE(when.holds(1024, 5));
  CHECK(When{}.always());
  CHECK(When{}.holds(1 << 30, 1));
}

TEST_CASE("pack files: size and hash are checked") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("stratum-test-pack-files-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const PackFile file{"k.cubin.zst", sha256_hex("cubin"), 5};
  std::filesystem::remove(folder / file.file);
  CHECK_THROWS_WITH(read_pack_file(folder, file), Catch::Contains("k.cubin.zst: cannot open"));
  replace_file(folder / file.file, zstd_compress("cubin"));
  CHECK(read_pack_file(folder, file) == "cubin");
  replace_file(folder / file.file, zstd_compress("nibuc"));
  CHECK_THROWS_WITH(read_pack_file(folder, file), Catch::Contains("k.cubin.zst: altered: the manifest says sha256 "));
  replace_file(folder / file.file, zstd_compress("cubin").substr(0, 9));
  CHECK_THROWS_WITH(read_pack_file(folder, file), Catch::Contains("k.cubin.zst: "));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stratum
