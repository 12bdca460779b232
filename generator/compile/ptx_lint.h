// What a kernel's PTX may not do, and the facts that the manifest takes from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stratum::gen {

// What is known of a kernel beforehand. A missing value is not checked.
struct LintRules {
  std::optional<std::string> symbol;
  std::optional<std::string> target;  // "sm_90a"
  std::optional<int64_t> block;       // threads; must be the launch bound, where the PTX has one
  int64_t local_bytes = 0;            // local memory allowed
  bool ordered_reduction = false;     // cp.reduce ... add.f32 allowed
};

// The rules for a kernel, told by a plan (KernelSpec) or by a row of a manifest, which name these fields alike.
template <class Kernel>
LintRules lint_rules(const Kernel& kernel) {
  return {.symbol = kernel.name,
          .target = kernel.key.arch,
          .block = kernel.block,
          .local_bytes = kernel.allow_spills ? kernel.allow_spills->bytes : 0,
          .ordered_reduction = kernel.ordered_reduction.has_value()};
}

struct LintFinding {
  size_t line = 0;  // from 1; 0 for the file as a whole
  std::string message;
};

struct PtxFacts {
  std::vector<std::string> entries;  // names, in order
  std::string target;
  int64_t params = 0;       // parameters of the first entry
  int64_t param_bytes = 0;  // their bytes
  std::optional<int64_t> max_threads;
  int64_t cluster = 1;  // blocks
  int64_t local_bytes = 0;
};

struct LintReport {
  PtxFacts facts;
  std::vector<LintFinding> findings;  // empty: the PTX keeps the rules
};

// Checks, in the file's order:
//  - no clock, timer or performance counter is read;
//  - no floating-point atom, red, cp.reduce or multimem: their order, and so the sum's bits, would change between runs.
//    A tensor cp.reduce counts, since its type is in the tensor map. ordered_reduction permits cp.reduce with .add.f32;
//  - exactly one entry, named after the symbol, with one parameter; the target is the plan's;
//  - launch bounds, if the PTX has any, are of the plan's threads;
//  - no alloca, whose local memory has no bound, and no declared local memory beyond the allowance.
LintReport lint_ptx(std::string_view ptx, const LintRules& rules);

// "line 12: message" or "message".
std::string describe_finding(const LintFinding& finding);

}  // namespace stratum::gen
