// What a plan or a family may say: every refusal names file, field, value and what is accepted.
#include <catch2/catch.hpp>

#include "common/file.h"
#include "generator/plan/plan.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

using nlohmann::json;

const json kScale = {{"scale", {{"tile", {{"threads", 64}, {"items", 2}}}}}};

std::vector<KernelSpec> read(const Project& project, const json& plan) {
  project.only_plan(plan);
  return read_plans(project.templates(), {project.templates() / "plans"});
}

// The refusal of a plan, from the field on: the folder's name is different every time.
std::string refusal(const Project& project, const json& plan) {
  const std::string message = input_error([&] { read(project, plan); });
  const size_t at = message.find("plan.json: ");
  REQUIRE(at != std::string::npos);
  return message.substr(at);
}

TEST_CASE("plan: one kernel a dtype, named after its key") {
  const Project project;
  json plan = Project::plan(kScale);
  plan["dtypes"] = {"bfloat16", "float16"};
  const std::vector<KernelSpec> specs = read(project, plan);
  REQUIRE(specs.size() == 2);
  CHECK(specs[0].name == "fake_scale_sm80_bf16_d64_r32_g0_t64i2");
  CHECK(specs[1].name == "fake_scale_sm80_fp16_d64_r32_g0_t64i2");
  const KernelSpec& spec = specs[0];
  CHECK(spec.key == KernelKey{"fake", "scale", "sm_80", "bfloat16", 64, 32, 0, {}});
  CHECK(spec.suffix == "t64i2");
  CHECK(spec.variant == 0);
  CHECK(spec.tile == std::map<std::string, int64_t>{{"threads", 64}, {"items", 2}});
  CHECK(spec.plan == "plans/plan.json");
  CHECK(spec.source == "fake/scale.cu");
  CHECK(spec.params == "Params");
  CHECK(spec.block == 64);
  CHECK(spec.shared_bytes == 512);
}

TEST_CASE("plan: flags follow the group, targets lose their underscore") {
  const Project project;
  json plan = Project::plan(kScale);
  plan["flags"] = {"turbo", "v2"};
  plan["arch"] = "sm_90a";
  plan["group"] = 4;
  CHECK(read(project, plan)[0].name == "fake_scale_sm90a_bf16_d64_r32_g4_turbo_v2_t64i2");
}

TEST_CASE("plan: variants keep their order") {
  const Project project;
  const json variants = {
      {{"tile", {{"threads", 64}, {"items", 1}}}, {"when", {{"seq_len", {0, 1024}}, {"batch", {2, nullptr}}}}},
      {{"tile", {{"threads", 32}, {"items", 1}}}}};
  const std::vector<KernelSpec> specs = read(project, Project::plan({{"scale", variants}}));
  REQUIRE(specs.size() == 2);
  CHECK(specs[0].suffix == "t32i1");
  CHECK(specs[0].variant == 1);
  CHECK(specs[0].when.always());
  CHECK(specs[1].variant == 0);
  CHECK(specs[1].when.holds(1024, 2));
  CHECK_FALSE(specs[1].when.holds(1025, 2));
  CHECK_FALSE(specs[1].when.holds(1024, 1));
}

TEST_CASE("plan: a file outside the templates goes by its bare name") {
  const Project project;
  project.write("elsewhere/mine.json", Project::plan(kScale).dump());
  const auto specs = read_plans(project.templates(), {project.root() / "elsewhere/mine.json"});
  REQUIRE(specs.size() == 1);
  CHECK(specs[0].plan == "mine.json");
}

TEST_CASE("plan: refusals") {
  const Project project;
  const auto refused = [&](const std::function<void(json&)>& change) {
    json plan = Project::plan(kScale);
    change(plan);
    return refusal(project, plan);
  };
  const auto tile = [](json& plan) -> json& { return plan["kernels"]["scale"]["tile"]; };

  CHECK(refused([](json& p) { p["archs"] = "sm_80"; }) ==
        "plan.json: archs: unknown field (did you mean \"arch\"?); accepted: arch, dtypes, family, flags, gate_dim, "
        "group, "
        "head_dim, kernels");
  CHECK(refused([](json& p) { p.erase("group"); }) == "plan.json: group: required, but missing");
  CHECK(refused([](json& p) {
          p.erase("head_dim");
          p["headdim"] = 64;
        }) == "plan.json: head_dim: required, but missing (did you mean it by \"headdim\"?)");
  CHECK(refused([](json& p) { p["arch"] = "sm_89"; }) ==
        "plan.json: arch: expected one of sm_80, sm_90, sm_90a (did you mean sm_80?), got \"sm_89\"");
  CHECK(refused([](json& p) { p["arch"] = 80; }) == "plan.json: arch: expected a text, got 80");
  CHECK(refused([](json& p) { p["dtypes"] = {"float32"}; }) ==
        "plan.json: dtypes: expected entries from bfloat16, float16, got [\"float32\"]");
  CHECK(refused([](json& p) {
          p["dtypes"] = {"float16", "float16"};
        }) == "plan.json: dtypes: expected each dtype once, got [\"float16\",\"float16\"]");
  CHECK(refused([](json& p) { p["dtypes"] = json::array(); }) ==
        "plan.json: dtypes: expected at least one dtype, got []");
  CHECK(refused([](json& p) { p["head_dim"] = 40; }) ==
        "plan.json: head_dim: expected an integer from 16 to 256, a multiple of 16, got 40");
  CHECK(refused([](json& p) { p["head_dim"] = 64.0; }) ==
        "plan.json: head_dim: expected an integer from 16 to 256, a multiple of 16, got 64.0");
  CHECK(refused([](json& p) { p["group"] = 3; }) == "plan.json: group: expected one of 0, 4, got 3");
  CHECK(refused([](json& p) { p["flags"] = {"Loud"}; }) ==
        "plan.json: flags: expected words of lower-case letters and digits, got [\"Loud\"]");
  CHECK(refused([](json& p) { p["family"] = "fake2"; }).find("plan.json: family: expected a folder under ") == 0);
  CHECK(refused([](json& p) {
          p["kernels"]["scael"] = p["kernels"]["scale"];
        }).find("plan.json: kernels.scael: unknown operation of fake (did you mean scale?); accepted: ") == 0);
  CHECK(refused([&](json& p) { tile(p).erase("items"); }) ==
        "plan.json: kernels.scale.tile.items: required, but missing");
  CHECK(refused([&](json& p) { tile(p)["stages"] = 2; }) ==
        "plan.json: kernels.scale.tile.stages: unknown field; accepted: items, threads");
  CHECK(refused([&](json& p) { tile(p)["threads"] = 100; }) ==
        "plan.json: kernels.scale.tile.threads: expected an integer from 32 to 1024, a multiple of 32, got 100");
  CHECK(refused([&](json& p) { tile(p)["threads"] = true; }) ==
        "plan.json: kernels.scale.tile.threads: expected an integer from 32 to 1024, a multiple of 32, got true");
  CHECK(refused([&](json& p) { tile(p)["items"] = 3; }) ==
        "plan.json: kernels.scale.tile.items: expected one of 1, 2, 4, got 3");
  CHECK(refused([&](json& p) {
          tile(p) = {{"threads", 1024}, {"items", 4}};
        }) ==
        "plan.json: kernels.scale.tile.items: items is 4, which breaks \"threads * items <= 2048\": a block covers at "
        "most "
        "2048 elements");
  CHECK(refused([&](json& p) {
          tile(p) = {{"threads", 512}, {"items", 4}};
        }) ==
        "plan.json: kernels.scale.tile: needs about 256 registers a thread (\"items * 62 + threads / 64\"); accepted: "
        "up to "
        "255");
  CHECK(refused([](json& p) {
          p["kernels"]["scale"]["allow_spills"] = {{"bytes", 64}};
        }) == "plan.json: kernels.scale.allow_spills.why: required, but missing");
  CHECK(refused([](json& p) {
          p["kernels"]["scale"]["when"] = {{"seq_len", {5, 1}}};
        }) ==
        "plan.json: kernels.scale.when.seq_len: expected [min, max], integers of at least 0 or null for open, min <= "
        "max, got "
        "[5,1]");
  CHECK(refused([](json& p) {
          p["kernels"]["scale"]["when"] = {{"heads", {1, 2}}};
        }) == "plan.json: kernels.scale.when.heads: unknown field; accepted: batch, seq_len");
}

TEST_CASE("plan: shared memory beyond the smallest GPU that the cubin serves") {
  const Project project;
  project.edit("templates/fake/family.json", "\"shared_bytes\": \"threads * items * 4\"",
               "\"shared_bytes\": \"threads * items * 800\"");
  CHECK(refusal(project, Project::plan(kScale)) ==
        "plan.json: kernels.scale.tile: needs 102400 bytes of shared memory a block (\"threads * items * 800\"); "
        "accepted on "
        "sm_80, which serves 8.0, 8.6, 8.7, 8.9: from 0 to 101376");
  json plan = Project::plan(kScale);
  plan["arch"] = "sm_90";
  CHECK(read(project, plan)[0].shared_bytes == 102400);
}

TEST_CASE("plan: variants need `when`, names and keys are unique") {
  const Project project;
  const json a = {{"tile", {{"threads", 64}, {"items", 1}}}}, b = {{"tile", {{"threads", 32}, {"items", 1}}}};
  CHECK(refusal(project, Project::plan({{"scale", {a, b}}})) ==
        "plan.json: kernels.scale[0].when: required of every variant but the last, or the ones after it are never "
        "launched");
  json first = a;
  first["when"] = {{"batch", {1, 1}}};
  CHECK(refusal(project, Project::plan({{"scale", {first, a}}}))
            .find("gives a kernel named "
                  "fake_scale_sm80_bf16_d64_r32_g0_t64i1, as does") != std::string::npos);
  CHECK(refusal(project, Project::plan({{"scale", json::array()}})) ==
        "plan.json: kernels.scale: expected at least one variant, got []");

  project.only_plan(Project::plan({{"scale", a}}));
  project.write("templates/plans/second.json", Project::plan({{"scale", b}}).dump());
  CHECK(input_error([&] {
          read_plans(project.templates(), {project.templates() / "plans"});
        }).find("the key (fake scale sm_80 bfloat16 head_dim 64 gate_dim 32 group any) is also given by") !=
        std::string::npos);
}

TEST_CASE("plan: every broken file is reported at once") {
  const Project project;
  json bad = Project::plan(kScale);
  bad["arch"] = "sm_1";
  project.only_plan(bad);
  project.write("templates/plans/broken.json", "{\"family\": ");
  const std::string message = input_error([&] { read_plans(project.templates(), {project.templates() / "plans"}); });
  CHECK(message.find("broken.json: not valid JSON: parse error at line 1") != std::string::npos);
  CHECK(message.find("plan.json: arch: expected") != std::string::npos);
}

TEST_CASE("plan: what the JSON parser refuses leaves the other broken files reported") {
  const Project project;
  json bad = Project::plan(kScale);
  bad["arch"] = "sm_1";
  project.only_plan(bad);
  const std::string good = Project::plan(kScale).dump();
  const auto with_threads = [&](const std::string& value) {
    std::string text = good;
    return text.replace(text.find("\"threads\":64"), 12, "\"threads\":" + value);
  };
  project.write("templates/plans/huge.json", with_threads("1e400"));
  project.write("templates/plans/latin.json", with_threads("\"\xe9\""));
  project.write("templates/plans/surrogate.json", with_threads("\"\\ud800\""));
  project.write("templates/plans/zero.json", with_threads("64, \"a\\u0000b\": 1"));
  std::filesystem::create_symlink("nowhere", project.templates() / "plans/dangling.json");
  const std::string message = input_error([&] { read_plans(project.templates(), {project.templates() / "plans"}); });
  CAPTURE(message);
  for (const char* part : {"huge.json: kernels.scale.tile.threads: not valid JSON: number overflow parsing '1e400'",
                           "latin.json: not valid JSON: parse error at line 1, column ",
                           "surrogate.json: not valid JSON: parse error at line 1, column ",
                           "zero.json: kernels.scale.tile.a\\u0000b: unknown field; accepted: items, threads",
                           "dangling.json: no such plan file or folder", "plan.json: arch: expected"}) {
    CHECK_THAT(message, Catch::Contains(part));
  }
}

TEST_CASE("plan: a kernel's name must leave room in the names of its files") {
  const Project project;
  json plan = Project::plan(kScale);
  const std::string bare = read(project, plan)[0].name;
  const size_t longest = kMaxKernelName - bare.size() - 1;
  plan["flags"] = {std::string(longest, 'a')};
  CHECK(read(project, plan)[0].name.size() == 236);
  plan["flags"] = {std::string(longest + 1, 'a')};
  CHECK_THAT(
      refusal(project, plan),
      Catch::StartsWith("plan.json: flags: gives a kernel's name of 237 characters; accepted: up to 236, since"));

  project.edit("templates/fake/family.json", "\"mnemonic\": \"scale\"",
               "\"mnemonic\": \"" + std::string(300, 'm') + "\"");
  CHECK_THAT(refusal(project, Project::plan(kScale)),
             Catch::StartsWith("plan.json: kernels.scale: gives a kernel's name of ") &&
                 Catch::Contains("accepted: up to 236") && Catch::EndsWith("in fake/family.json)"));

  plan = Project::plan(kScale);
  plan["family"] = std::string(300, 'f');
  CHECK_THAT(refusal(project, plan), Catch::StartsWith("plan.json: family: expected a folder under "));
}

TEST_CASE("plan: a file's name that the manifest cannot hold") {
  const Project project;
  project.only_plan(Project::plan(kScale));
  project.write("templates/plans/caf\xe9.json", Project::plan(kScale).dump());
  CHECK_THAT(input_error([&] { read_plans(project.templates(), {project.templates() / "plans"}); }),
             Catch::Contains("caf\xe9.json: a plan's file name must be UTF-8"));
}

TEST_CASE("family: refusals") {
  const Project project;
  const auto refused = [&](const std::string& old_text, const std::string& new_text) {
    const Project other;
    other.edit("templates/fake/family.json", old_text, new_text);
    other.only_plan(Project::plan(kScale));
    const std::string message = input_error([&] { read_plans(other.templates(), {other.templates() / "plans"}); });
    const size_t at = message.find("family.json: ");
    REQUIRE(at != std::string::npos);
    return message.substr(at);
  };
  CHECK(refused("\"threads * items * 4\"", "\"thread * items * 4\"") ==
        "family.json: operations.scale.shared_bytes: \"thread * items * 4\" at position 1: unknown name thread (did "
        "you mean "
        "threads?); there are head_dim, gate_dim, group, items, threads, max_shared_bytes, max_registers");
  CHECK(
      refused("\"field\": \"items\"", "\"field\": \"item\"") ==
      "family.json: operations.scale.require[0].field: expected one of head_dim, gate_dim, group, items, threads, got "
      "\"item\"");
  CHECK(refused("\"t{threads}i{items}\"", "\"t{threads}i{item}\"") ==
        "family.json: operations.scale.suffix: \"t{threads}i{item}\" at position 12: no value for {item}");
  CHECK(refused("\"sm_90a\"", "\"sm_91\"").find("family.json: archs: unknown entry \"sm_91\"; accepted: sm_80, ") == 0);
  CHECK(refused("\"mnemonic\": \"scale\"", "\"mnemonic\": \"no_entry\"")
            .find("mnemonic: expected a word that no other operation has") != std::string::npos);
  CHECK(refused("\"one_of\": [0, 4]", "\"one_of\": [0, 4], \"max\": 2") ==
        "family.json: key.group.max: unknown field; accepted: one_of");
}

}  // namespace
}  // namespace stratum::gen
