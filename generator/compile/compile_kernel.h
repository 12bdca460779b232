// One kernel on its way from filled template to cubin: NVRTC, lint, ptxas, and the gates between them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "generator/compile/ptx_lint.h"
#include "generator/compile/toolchain.h"
#include "generator/plan/build_key.h"

namespace stratum::gen {

// What is known of a kernel only after it was compiled.
struct KernelFacts {
  int64_t param_bytes = 0;
  int32_t cluster = 1;
  int32_t registers = 0;
  int32_t spill_bytes = 0;
  int32_t local_bytes = 0;
  int32_t static_shared_bytes = 0;

  bool operator==(const KernelFacts&) const = default;
};

struct CompiledKernel {
  std::string ptx, cubin;
  KernelFacts facts;
  std::string warnings;  // of both compilers; empty if there were none
};

// The lint's rules for a kernel of a plan.
LintRules lint_rules(const KernelSpec& spec);

// Compiles a kernel and checks it: the PTX keeps the lint's rules, local memory and spills are within the plan's
// allowance, ptxas did not warn of serialised wgmma, a block of the kernel fits an SM. What the
// compilers printed is kept as `logs`/NAME.log whatever comes of it. Throws InputError with the complete log if the
// source or the plan is at fault, ToolchainError if a compiler is.
CompiledKernel compile_kernel(const Toolchain& toolchain, const BuildInputs& inputs, const std::filesystem::path& logs);

// Why a kernel's resources break its plan; empty if they don't.
std::vector<std::string> resource_problems(const KernelSpec& spec, const KernelFacts& facts);

}  // namespace stratum::gen
