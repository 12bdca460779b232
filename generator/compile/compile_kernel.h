// One kernel on its way from filled template to cubin: NVRTC, lint, ptxas, and the gates between them.
#pragma once

#include <filesystem>
#include <string>

#include "common/manifest.h"
#include "generator/compile/toolchain.h"
#include "generator/plan/build_key.h"

namespace stratum::gen {

struct CompiledKernel {
  std::string ptx, cubin;
  KernelFacts facts;
  std::string warnings;  // of both compilers; empty if there were none
};

// Compiles a kernel and checks it: the PTX keeps the lint's rules, local memory and spills are within the plan's
// allowance, ptxas did not warn of serialised wgmma, a block of the kernel fits an SM. What the
// compilers printed is kept as `logs`/NAME.log whatever comes of it, PTX that lint or ptxas refuse as `logs`/NAME.ptx.
// Throws InputError with the complete log if the source or the plan is at fault, ToolchainError if a compiler is.
CompiledKernel compile_kernel(const Toolchain& toolchain, const BuildInputs& inputs, const std::filesystem::path& logs);

}  // namespace stratum::gen
