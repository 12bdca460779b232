// stratum-gen lint: the rules of PTX, for files or for a whole pack.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/manifest.h"
#include "generator/command/commands.h"
#include "generator/command/print_json.h"
#include "generator/compile/ptx_lint.h"

namespace stratum::gen {
namespace {

using nlohmann::ordered_json;

struct Linted {
  std::string name;
  std::vector<LintFinding> findings;
};

std::vector<Linted> lint_everything(const LintOptions& options) {
  std::vector<Linted> linted;
  for (const auto& file : options.files) linted.push_back({file.string(), lint_ptx(read_file(file), {}).findings});
  if (!options.files.empty()) return linted;
  for (const ManifestKernel& kernel : read_manifest(options.pack).kernels) {
    const LintReport report = lint_ptx(read_pack_file(options.pack, kernel.ptx), lint_rules(kernel));
    linted.push_back({kernel.name, report.findings});
    if (report.facts.params == 1 && report.facts.param_bytes != kernel.params.bytes) {
      linted.back().findings.push_back({0, fmt::format("parameters of {} bytes, but the manifest says {}",
                                                       report.facts.param_bytes, kernel.params.bytes)});
    }
  }
  return linted;
}

}  // namespace

int run_lint(const LintOptions& options) {
  const std::vector<Linted> linted = lint_everything(options);
  size_t count = 0;
  ordered_json rows = ordered_json::array();
  for (const Linted& file : linted) {
    for (const LintFinding& finding : file.findings) {
      ++count;
      rows.push_back({{"name", file.name}, {"line", finding.line}, {"message", finding.message}});
      if (!options.json) fmt::print("{}: {}\n", file.name, describe_finding(finding));
    }
  }
  if (options.json) {
    const ordered_json result = {{"ok", count == 0}, {"checked", linted.size()}, {"findings", rows}};
    print_json(result);
  } else {
    fmt::print("{} checked, {} findings\n", linted.size(), count);
  }
  return count == 0 ? kDone : kInputWrong;
}

}  // namespace stratum::gen
