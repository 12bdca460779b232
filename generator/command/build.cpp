// stratum-gen build: compile what changed, publish the pack.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "common/input_error.h"
#include "generator/command/commands.h"
#include "generator/command/pack_table.h"
#include "generator/command/parallel.h"
#include "generator/command/print_json.h"
#include "generator/command/work_list.h"
#include "generator/pack/pack_folder.h"

namespace stratum::gen {
namespace {

using nlohmann::ordered_json;

// The rows and files of the pack to be, gathered by several threads.
class NewPack {
 public:
  void keep(ManifestKernel row) {
    const std::lock_guard lock(mutex_);
    ++kept;
    rows_.push_back(std::move(row));
  }

  void add(ManifestKernel row, const BuiltKernel& kernel, int& counter) {
    const std::lock_guard lock(mutex_);
    ++counter;
    files_[kernel.cubin.file] = kernel.cubin_frame;
    files_[kernel.ptx.file] = kernel.ptx_frame;
    rows_.push_back(std::move(row));
  }

  Manifest manifest(const ToolchainVersions& versions) {
    // With --only a key may have some of its variants: they keep their order and are numbered without gaps.
    std::ranges::stable_sort(rows_, {}, &ManifestKernel::variant);
    std::map<KernelKey, int32_t> variants;
    for (ManifestKernel& row : rows_) row.variant = variants[row.key]++;
    std::ranges::sort(rows_, {}, &ManifestKernel::name);
    return {.toolchain = versions, .kernels = rows_};
  }

  const std::map<std::string, std::string>& files() const { return files_; }

  int kept = 0, cached = 0, compiled = 0;

 private:
  std::mutex mutex_;
  std::vector<ManifestKernel> rows_;
  std::map<std::string, std::string> files_;
};

// The old row brought up to what its plan says now: what does not change the bytes may have changed.
ManifestKernel refreshed_row(const WorkItem& item, const ManifestKernel& old) {
  ManifestKernel row = planned_row(item);
  row.cubin = old.cubin;
  row.ptx = old.ptx;
  row.set_facts(old.facts());
  return row;
}

std::optional<Manifest> old_manifest(const PackFolder& pack) {
  try {
    return pack.manifest();
  } catch (const InputError& error) {
    fmt::print(stderr, "the pack is built anew, since its manifest is no use: {}\n", error.what());
    return std::nullopt;
  }
}

// With --only rows of the old pack stay, and a pack has one toolchain.
void check_same_toolchain(const BuildOptions& options, const Manifest& old, const ToolchainPin& pin) {
  if (old.toolchain == pin.versions) return;
  throw InputError(fmt::format(
      "--only: the kernels it would keep in {} were made by {}, but {} pins {}; build without --only",
      options.out.string(), describe_toolchain(old.toolchain), pin.file.string(), describe_toolchain(pin.versions)));
}

void report(const BuildOptions& options, const Manifest& manifest, const NewPack& pack, bool changed) {
  if (options.json) {
    ordered_json result = {{"ok", true},
                           {"pack", options.out.string()},
                           {"changed", changed},
                           {"kept", pack.kept},
                           {"cached", pack.cached},
                           {"compiled", pack.compiled},
                           {"kernels", kernels_to_json(manifest.kernels)}};
    print_json(result);
    return;
  }
  fmt::print("{}\n{} kernels in {}: {} kept, {} from the cache, {} compiled; {}\n", pack_table(manifest.kernels),
             manifest.kernels.size(), options.out.string(), pack.kept, pack.cached, pack.compiled,
             changed ? "the pack was published" : "nothing changed");
}

}  // namespace

int run_build(const BuildOptions& options) {
  const std::filesystem::path root = project_root(options.templates);
  const ToolchainPin pin = read_toolchain_pin(root);
  const std::vector<WorkItem> items = read_work(options.templates, options.plans, pin);
  const auto selected = [&](const std::string& name) { return options.only.empty() || matches(options.only, name); };
  if (std::ranges::none_of(items, [&](const WorkItem& item) { return selected(item.spec().name); })) {
    throw InputError(options.only.empty() ? "the plans ask for no kernel"
                                          : fmt::format("--only: no kernel of the plans matches \"{}\"", options.only));
  }

  const BuildCache cache(options.cache);
  const PackFolder folder(options.out,
                          [&] { fmt::print(stderr, "waiting for another build of {}\n", options.out.string()); });
  const std::optional<Manifest> old = old_manifest(folder);

  if (old && !options.only.empty()) check_same_toolchain(options, *old, pin);
  NewPack pack;
  if (old) {
    for (const ManifestKernel& row : old->kernels) {
      if (!options.only.empty() && !selected(row.name)) pack.keep(row);
    }
  }
  std::mutex mutex;
  std::vector<const WorkItem*> to_compile;
  parallel_for(items.size(), options.jobs, [&](size_t index) {
    const WorkItem& item = items[index];
    if (!selected(item.spec().name)) return;
    const ManifestKernel* row = old ? old->find(item.spec().name) : nullptr;
    if (row != nullptr && row->build_key == item.key && folder.holds(row->cubin) && folder.holds(row->ptx)) {
      pack.keep(refreshed_row(item, *row));
    } else if (const std::optional<BuiltKernel> built = cache.find(item.spec().name, item.key)) {
      pack.add(built_row(item, *built), *built, pack.cached);
    } else {
      const std::lock_guard lock(mutex);
      to_compile.push_back(&item);
    }
  });
  std::ranges::sort(to_compile, {}, [](const WorkItem* item) { return item->spec().name; });

  if (!to_compile.empty()) {
    const Toolchain toolchain = find_toolchain(pin, options.toolchain, root);
    const auto failures = compile_all(to_compile, toolchain, cache.logs(), options.jobs,
                                      [&](const WorkItem& item, const CompiledKernel& kernel) {
                                        const BuiltKernel built = pack_kernel(item.spec().name, kernel);
                                        cache.store(item.key, built);
                                        pack.add(built_row(item, built), built, pack.compiled);
                                      });
    if (!failures.empty()) {
      std::string message;
      for (const auto& failure : failures) message += failure.second + "\n";
      throw InputError(fmt::format("{}{} of {} kernels failed; {} is as before", message, failures.size(), items.size(),
                                   options.out.string()));
    }
  }
  const Manifest manifest = pack.manifest(pin.versions);
  const bool changed = folder.publish(manifest, pack.files());
  report(options, manifest, pack, changed);
  return kDone;
}

}  // namespace stratum::gen
