// stratum-gen verify: is the pack what the sources give? By keys, or by building everything again.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "common/input_error.h"
#include "common/sha256.h"
#include "generator/command/commands.h"
#include "generator/command/pack_check.h"
#include "generator/command/print_json.h"
#include "generator/command/work_list.h"
#include "generator/pack/build_cache.h"

namespace stratum::gen {
namespace {

using nlohmann::ordered_json;

// Compiles every kernel, whatever the cache holds, and compares its files with the pack's rows.
std::vector<Difference> rebuild(const std::vector<WorkItem>& items, const Manifest& manifest,
                                const Toolchain& toolchain, const std::filesystem::path& logs, int jobs) {
  std::vector<const WorkItem*> all;
  for (const WorkItem& item : items) all.push_back(&item);
  std::mutex mutex;
  std::vector<Difference> differences;
  const auto compare = [&](const WorkItem& item, const CompiledKernel& kernel) {
    const ManifestKernel* row = manifest.find(item.spec().name);
    if (row == nullptr) return;  // reported as missing already
    const std::string cubin = sha256_hex(kernel.cubin), ptx = sha256_hex(kernel.ptx);
    const std::lock_guard lock(mutex);
    if (ptx != row->ptx.sha256) {
      differences.push_back(
          {"different", row->name, fmt::format("PTX hashes to {}, the pack's to {}", ptx, row->ptx.sha256)});
    }
    if (cubin != row->cubin.sha256) {
      differences.push_back(
          {"different", row->name, fmt::format("cubin hashes to {}, the pack's to {}", cubin, row->cubin.sha256)});
    }
    if (row->facts() != kernel.facts) {
      differences.push_back({"different", row->name, "the resources in its row are not the kernel's"});
    }
  };
  for (const auto& [name, message] : compile_all(all, toolchain, logs, jobs, compare)) {
    differences.push_back({"different", name, "does not build: " + message});
  }
  return differences;
}

void report(const VerifyOptions& options, const Manifest& manifest, const std::vector<Difference>& differences) {
  if (options.json) {
    ordered_json rows = ordered_json::array();
    for (const Difference& difference : differences) {
      rows.push_back({{"kind", difference.kind}, {"name", difference.name}, {"what", difference.what}});
    }
    const ordered_json result = {{"ok", differences.empty()},
                                 {"pack", options.pack.string()},
                                 {"checked", manifest.kernels.size()},
                                 {"rebuilt", !options.keys},
                                 {"differences", rows}};
    print_json(result);
    return;
  }
  for (const Difference& difference : differences) {
    fmt::print("{:<9}  {}  {}\n", difference.kind, difference.name, difference.what);
  }
  if (differences.empty()) {
    fmt::print(
        "{} kernels in {}: {}\n", manifest.kernels.size(), options.pack.string(),
        options.keys ? "every key is that of the sources, every file is whole" : "rebuilt, every byte is the same");
  } else {
    fmt::print("{} differences; `stratum-gen build` brings the pack up to date\n", differences.size());
  }
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  const std::filesystem::path root = project_root(options.templates);
  const ToolchainPin pin = read_toolchain_pin(root);
  const std::vector<WorkItem> items = read_work(options.templates, options.plans, pin);
  const Manifest manifest = read_manifest(options.pack);
  std::vector<Difference> differences = check_pack(items, manifest, options.pack, pin);
  if (!options.keys) {
    const Toolchain toolchain = find_toolchain(pin, options.toolchain, root);
    std::ranges::move(rebuild(items, manifest, toolchain, BuildCache(options.cache).logs(), options.jobs),
                      std::back_inserter(differences));
  }
  std::ranges::stable_sort(differences, {}, [](const Difference& d) { return std::tie(d.name, d.kind, d.what); });
  report(options, manifest, differences);
  return differences.empty() ? kDone : kInputWrong;
}

}  // namespace stratum::gen
