// The build key: a hash of everything that can change a kernel's bytes. Equal keys mean equal bytes on any machine, so
// it names cache entries and tells a stale pack. Computed without the compilers: their versions are pinned.
#pragma once

#include <string>
#include <vector>

#include "common/manifest.h"
#include "generator/plan/plan.h"
#include "generator/plan/template_source.h"

namespace stratum::gen {

// Raised when the generator itself treats the same inputs differently: filling, lint, packing.
inline constexpr int kGeneratorFormat = 1;

// The compilers' command lines, complete but for the source and the output.
std::vector<std::string> nvrtc_options(const std::string& arch);
std::vector<std::string> ptxas_options(const std::string& arch);

struct BuildInputs {
  int generator_format = kGeneratorFormat;
  ToolchainVersions versions;
  std::vector<std::string> nvrtc_options, ptxas_options;
  KernelSpec spec;
  KernelSource source;
};

BuildInputs build_inputs(const KernelSpec& spec, KernelSource source, const ToolchainVersions& versions);

// 64 hexadecimal digits.
std::string build_key(const BuildInputs& inputs);

}  // namespace stratum::gen
