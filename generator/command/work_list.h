// From plans to what there is to build, for the commands that build and the ones that compare.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/manifest.h"
#include "generator/compile/compile_kernel.h"
#include "generator/compile/toolchain.h"
#include "generator/pack/build_cache.h"
#include "generator/plan/build_key.h"

namespace stratum::gen {

// One kernel to build.
struct WorkItem {
  BuildInputs inputs;
  std::string key;

  const KernelSpec& spec() const { return inputs.spec; }
};

// The folder that toolchain.json is in: the templates folder's parent, or the current one.
std::filesystem::path project_root(const std::filesystem::path& templates);

// Every kernel of the plans (empty: templates/plans), sorted by name. Needs no compiler. Throws InputError.
std::vector<WorkItem> read_work(const std::filesystem::path& templates, const std::vector<std::filesystem::path>& plans,
                                const ToolchainPin& pin);

// The manifest row of a kernel: from its plan alone, and with what the build told.
ManifestKernel planned_row(const WorkItem& item);
ManifestKernel built_row(const WorkItem& item, const BuiltKernel& kernel);

// Compiles kernels in parallel, with progress on stderr, and hands each to `done` (called by several threads). One that
// does not compile keeps nothing from the others; its message is in the result, which is sorted by name.
std::map<std::string, std::string> compile_all(const std::vector<const WorkItem*>& items, const Toolchain& toolchain,
                                               const std::filesystem::path& logs, int jobs,
                                               const std::function<void(const WorkItem&, const CompiledKernel&)>& done);

// Whether a name matches a shell pattern ("gated_fwd_*").
bool matches(const std::string& pattern, const std::string& name);

}  // namespace stratum::gen
