// What docs/ says of plans is what the generator accepts.
#include <catch2/catch.hpp>
#include <sstream>

#include "common/file.h"
#include "generator/command/work_list.h"
#include "generator/plan/family.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

const std::filesystem::path kSources = STRATUM_SOURCE_DIR;

// The lines of a page between a heading of that level ("## ") for which `is_heading` holds and the next of its kind.
std::string section(const std::string& page, const std::string& level,
                    const std::function<bool(const std::string&)>& is_heading) {
  std::istringstream lines(page);
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(level)) {
      inside = is_heading(line.substr(level.size()));
    } else if (inside) {
      text += line + "\n";
    }
  }
  return text;
}

// Its first indented block.
std::string code_block(const std::string& text) {
  std::istringstream lines(text);
  std::string block;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    ")) {
      block += line + "\n";
    } else if (!block.empty()) {
      break;
    }
  }
  return block;
}

TEST_CASE("docs: the plan in formats.md is accepted") {
  const std::string page = read_file(kSources / "docs/formats.md");
  const Project project;
  project.write("example.json",
                code_block(section(page, "## ", [](const auto& heading) { return heading.starts_with("Plan:"); })));
  const std::vector<WorkItem> items =
      read_work(kSources / "templates", {project.root() / "example.json"}, read_toolchain_pin(kSources));
  std::vector<std::string> names;
  for (const WorkItem& item : items) names.push_back(item.spec().name);
  CHECK(names == std::vector<std::string>{
                     "gated_dec_sm80_bf16_d128_r64_g0_m16n16w4s2", "gated_dec_sm80_fp16_d128_r64_g0_m16n16w4s2",
                     "gated_fwd_sm80_bf16_d128_r64_g0_m32n32", "gated_fwd_sm80_bf16_d128_r64_g0_m64n32",
                     "gated_fwd_sm80_fp16_d128_r64_g0_m32n32", "gated_fwd_sm80_fp16_d128_r64_g0_m64n32"});
}

TEST_CASE("docs: plans.md tells every tile field of every operation of every family") {
  const std::string page = read_file(kSources / "docs/plans.md");
  for (const char* folder : {"gated/portable", "gated/sm90a"}) {
    const std::string chapter = section(page, "# ", [&](const std::string& heading) { return heading == folder; });
    for (const auto& [name, operation] : read_family(kSources / "templates", folder).operations) {
      const std::string text = section(chapter, "## ", [&](const std::string& heading) {
        std::istringstream words(heading);
        for (std::string word; std::getline(words, word, ',');) {
          if (word.substr(word.find_first_not_of(' ')) == name) return true;
        }
        return false;
      });
      CAPTURE(folder, name);
      REQUIRE_FALSE(text.empty());
      for (const auto& [field, rule] : operation.tile) {
        CAPTURE(field);
        CHECK(text.find("`" + field + "`") != std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace stratum::gen
