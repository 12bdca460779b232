#include "generator/command/pack_check.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/input_error.h"

namespace stratum::gen {
namespace {

// The fields of a row that the plan decides and that differ, "block 128 instead of 256".
std::string changed_fields(const ManifestKernel& row, const ManifestKernel& planned) {
  if (row.build_key != planned.build_key) return "built from other inputs";
  // What only a build tells is taken over, so that the rest can be compared as data.
  ManifestKernel expected = planned;
  expected.cubin = row.cubin;
  expected.ptx = row.ptx;
  expected.set_facts(row.facts());
  if (row == expected) return "";
  const nlohmann::ordered_json has = kernel_to_json(row), wants = kernel_to_json(expected);
  std::set<std::string> fields;
  for (const auto& item : has.items()) fields.insert(item.key());
  for (const auto& item : wants.items()) fields.insert(item.key());
  std::vector<std::string> texts;
  for (const std::string& field : fields) {
    const std::string old_text = has.contains(field) ? has[field].dump() : "nothing";
    const std::string new_text = wants.contains(field) ? wants[field].dump() : "nothing";
    if (old_text != new_text) texts.push_back(fmt::format("{} is {}, planned {}", field, old_text, new_text));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

std::vector<Difference> check_pack(const std::vector<WorkItem>& items, const Manifest& manifest,
                                   const std::filesystem::path& pack, const ToolchainPin& pin) {
  std::vector<Difference> differences;
  if (manifest.toolchain != pin.versions) {
    differences.push_back({"changed", std::string(kManifestFile),
                           fmt::format("made by {}, pinned are {}", describe_toolchain(manifest.toolchain),
                                       describe_toolchain(pin.versions))});
  }
  std::map<std::string, const WorkItem*> planned;
  for (const WorkItem& item : items) planned.emplace(item.spec().name, &item);
  for (const auto& [name, item] : planned) {
    if (manifest.find(name) == nullptr) differences.push_back({"missing", name, "planned by " + item->spec().plan});
  }
  for (const ManifestKernel& row : manifest.kernels) {
    const auto item = planned.find(row.name);
    if (item == planned.end()) {
      differences.push_back({"extra", row.name, "no plan asks for it"});
    } else if (const std::string fields = changed_fields(row, planned_row(*item->second)); !fields.empty()) {
      differences.push_back({"changed", row.name, fields});
    }
    for (const PackFile* file : {&row.cubin, &row.ptx}) {
      try {
        read_pack_file(pack, *file);
      } catch (const InputError& error) {
        differences.push_back({"damaged", row.name, error.what()});
      }
    }
  }
  return differences;
}

}  // namespace stratum::gen
