#include "generator/command/work_list.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <chrono>
#include <mutex>
#include <set>

#include "common/input_error.h"
#include "generator/command/parallel.h"
#include "generator/command/progress.h"

namespace stratum::gen {

namespace fs = std::filesystem;

fs::path project_root(const fs::path& templates) {
  const fs::path parent = (templates / "..").lexically_normal();
  return fs::exists(parent / "toolchain.json") ? parent : fs::path(".");
}

std::vector<WorkItem> read_work(const fs::path& templates, const std::vector<fs::path>& plans,
                                const ToolchainPin& pin) {
  SourceTree tree(templates);
  std::vector<WorkItem> items;
  std::set<std::string> problems;  // each once, however many kernels share the template
  for (const KernelSpec& spec : read_plans(templates, plans.empty() ? std::vector{templates / "plans"} : plans)) {
    try {
      WorkItem item{.inputs = build_inputs(spec, read_source(tree, spec), pin.versions), .key = {}};
      item.key = build_key(item.inputs);
      items.push_back(std::move(item));
    } catch (const InputError& error) {
      problems.insert(error.what());
    }
  }
  if (!problems.empty()) throw InputError(fmt::format("{}", fmt::join(problems, "\n")));
  return items;
}

ManifestKernel planned_row(const WorkItem& item) {
  const KernelSpec& spec = item.spec();
  ManifestKernel row;
  row.name = spec.name;
  row.key = spec.key;
  row.suffix = spec.suffix;
  row.variant = spec.variant;
  row.when = spec.when;
  row.tile = spec.tile;
  row.plan = spec.plan;
  row.allow_spills = spec.allow_spills;
  row.ordered_reduction = spec.ordered_reduction;
  row.build_key = item.key;
  row.params.name = spec.params;
  row.block = spec.block;
  row.shared_bytes = spec.shared_bytes;
  return row;
}

ManifestKernel built_row(const WorkItem& item, const BuiltKernel& kernel) {
  ManifestKernel row = planned_row(item);
  row.cubin = kernel.cubin;
  row.ptx = kernel.ptx;
  row.set_facts(kernel.facts);
  return row;
}

std::map<std::string, std::string> compile_all(
    const std::vector<const WorkItem*>& items, const Toolchain& toolchain, const fs::path& logs, int jobs,
    const std::function<void(const WorkItem&, const CompiledKernel&)>& done) {
  Progress progress(items.size());
  std::mutex mutex;
  std::map<std::string, std::string> failures;
  parallel_for(items.size(), jobs, [&](size_t index) {
    const WorkItem& item = *items[index];
    const auto start = std::chrono::steady_clock::now();
    try {
      const CompiledKernel kernel = compile_kernel(toolchain, item.inputs, logs);
      done(item, kernel);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (!kernel.warnings.empty()) {
        progress.note(fmt::format("{}: warnings (kept as {})\n{}", item.spec().name,
                                  (logs / (item.spec().name + ".log")).string(), kernel.warnings));
      }
      progress.advance(
          fmt::format("{} {} registers {:.1f} s", item.spec().name, kernel.facts.registers, seconds.count()));
    } catch (const InputError& error) {
      progress.advance(fmt::format("{} FAILED", item.spec().name));
      const std::lock_guard lock(mutex);
      failures.emplace(item.spec().name, error.what());
    }
  });
  return failures;
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace stratum::gen
