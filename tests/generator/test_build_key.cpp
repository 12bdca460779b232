// Everything that can change a kernel's bytes is in its key, and nothing else is.
#include <catch2/catch.hpp>
#include <set>

#include "generator/command/work_list.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

using nlohmann::json;

const json kPlan = Project::plan({{"scale", {{"tile", {{"threads", 64}, {"items", 2}}}}}});

WorkItem only_item(const Project& project, const json& plan) {
  project.only_plan(plan);
  return read_work(project.templates(), {}, read_toolchain_pin(project.root())).at(0);
}

std::string key_of(const Project& project, const json& plan) { return only_item(project, plan).key; }

TEST_CASE("build key: the same inputs give the same key in another folder") {
  CHECK(key_of(Project(), kPlan) == key_of(Project(), kPlan));
}

TEST_CASE("build key: each input flipped gives a new key") {
  std::set<std::string> keys = {key_of(Project(), kPlan)};
  const auto is_new = [&](const std::string& key) { return keys.insert(key).second; };

  SECTION("files") {
    for (const char* file : {"templates/fake/scale.cu", "templates/abi/fake.h", "templates/abi/fake_types.h"}) {
      const Project project;
      project.write(file, project.read(file) + " ");
      CAPTURE(file);
      CHECK(is_new(key_of(project, kPlan)));
    }
    const Project renamed;
    std::filesystem::rename(renamed.templates() / "abi/fake_types.h", renamed.templates() / "abi/fake_names.h");
    renamed.edit("templates/abi/fake.h", "abi/fake_types.h", "abi/fake_names.h");
    CHECK(is_new(key_of(renamed, kPlan)));
  }
  SECTION("the plan") {
    const std::vector<std::function<void(json&)>> changes = {
        [](json& p) { p["arch"] = "sm_90"; },
        [](json& p) { p["arch"] = "sm_90a"; },
        [](json& p) { p["dtypes"] = {"float16"}; },
        [](json& p) { p["head_dim"] = 128; },
        [](json& p) { p["gate_dim"] = 64; },
        [](json& p) { p["group"] = 4; },
        [](json& p) { p["flags"] = {"turbo"}; },
        [](json& p) { p["kernels"]["scale"]["tile"]["threads"] = 96; },
        [](json& p) { p["kernels"]["scale"]["tile"]["items"] = 1; },
        [](json& p) {
          p["kernels"]["scale"]["allow_spills"] = {{"bytes", 8}, {"why", "a test"}};
        },
        [](json& p) {
          p["kernels"]["scale"]["allow_spills"] = {{"bytes", 16}, {"why", "a test"}};
        },
        [](json& p) { p["kernels"]["scale"]["ordered_reduction"] = "a test"; },
    };
    for (size_t i = 0; i < changes.size(); ++i) {
      json plan = kPlan;
      changes[i](plan);
      CAPTURE(i);
      CHECK(is_new(key_of(Project(), plan)));
    }
  }
  SECTION("the family's expressions and names") {
    const std::pair<const char*, const char*> edits[] = {
        {"\"threads * items * 4\"", "\"threads * items * 8\""},
        {"\"family\": \"fake\"", "\"family\": \"fakes\""},
        {"\"mnemonic\": \"scale\"", "\"mnemonic\": \"scl\""},
        {"\"t{threads}i{items}\"", "\"t{threads}\""},
        {"\"block\": \"threads\"", "\"block\": \"threads * 2\""},
        {"\"params\": \"Params\"", "\"params\": \"OtherParams\""},
    };
    for (const auto& [old_text, new_text] : edits) {
      const Project project;
      project.edit("templates/fake/family.json", old_text, new_text);
      CAPTURE(new_text);
      CHECK(is_new(key_of(project, kPlan)));
    }
  }
  SECTION("the compilers: versions and every option") {
    for (const char* tool : {"nvrtc", "ptxas"}) {
      const Project project;
      project.edit("toolchain.json", std::string("\"") + tool + "\": \"13.0.88\"",
                   std::string("\"") + tool + "\": \"13.0.89\"");
      CHECK(is_new(key_of(project, kPlan)));
    }
    const BuildInputs inputs = only_item(Project(), kPlan).inputs;
    const auto flip_all = [&](std::vector<std::string> BuildInputs::*options) {
      for (size_t i = 0; i < (inputs.*options).size(); ++i) {
        BuildInputs flipped = inputs;
        (flipped.*options)[i] += "x";
        CHECK(is_new(build_key(flipped)));
        flipped = inputs;
        (flipped.*options).erase((flipped.*options).begin() + static_cast<ptrdiff_t>(i));
        CHECK(is_new(build_key(flipped)));
      }
      BuildInputs more = inputs;
      (more.*options).push_back("-more");
      CHECK(is_new(build_key(more)));
    };
    flip_all(&BuildInputs::nvrtc_options);
    flip_all(&BuildInputs::ptxas_options);
  }
  SECTION("the generator's own format") {
    BuildInputs inputs = only_item(Project(), kPlan).inputs;
    ++inputs.generator_format;
    CHECK(is_new(build_key(inputs)));
  }
}

TEST_CASE("build key: what cannot change the bytes leaves it alone") {
  const std::string key = key_of(Project(), kPlan);
  json plan = kPlan;
  plan["kernels"]["scale"]["when"] = {{"batch", {1, 8}}};
  CHECK(key_of(Project(), plan) == key);

  const Project project;
  project.write("templates/abi/unrelated.h", "// nobody includes this");
  project.edit("templates/fake/family.json", "a block covers", "one block covers");
  CHECK(key_of(project, kPlan) == key);

  json first = kPlan, second = kPlan;
  first["kernels"]["scale"]["allow_spills"] = {{"bytes", 8}, {"why", "one reason"}};
  second["kernels"]["scale"]["allow_spills"] = {{"bytes", 8}, {"why", "another reason"}};
  CHECK(key_of(Project(), first) == key_of(Project(), second));
}

TEST_CASE("compiler options: no fast math, no debug information, the plan's target") {
  const std::vector<std::string> options = nvrtc_options("sm_90a");
  CHECK(options.at(0) == "--gpu-architecture=compute_90a");
  for (const std::string& option : options) {
    CHECK(option.find("fast") == std::string::npos);
    CHECK(option.find("-G") == std::string::npos);
    CHECK(option.find("lineinfo") == std::string::npos);
  }
  CHECK(ptxas_options("sm_90a").at(0) == "-arch=sm_90a");
}

}  // namespace
}  // namespace stratum::gen
