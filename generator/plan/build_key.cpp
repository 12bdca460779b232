#include "generator/plan/build_key.h"

#include <nlohmann/json.hpp>

#include "common/sha256.h"
#include "generator/plan/arch.h"

namespace stratum::gen {

std::vector<std::string> nvrtc_options(const std::string& arch) {
  return {
      "--gpu-architecture=" + find_arch(arch)->virtual_name(),
      "--std=c++20",
      "-default-device",
      // Products and sums round where the source says so; what is to be fused is written as fmaf. Kernels that must
      // agree to the bit would otherwise depend on what the optimiser finds to contract in each.
      "--fmad=false",
      // The defaults, written down: no fast math.
      "--ftz=false",
      "--prec-div=true",
      "--prec-sqrt=true",
      // Nothing but the headers handed over is an input, no earlier result is reused, no name is random.
      "--no-source-include",
      "--no-cache",
      "--frandom-seed=stratum",
  };
}

std::vector<std::string> ptxas_options(const std::string& arch) { return {"-arch=" + arch, "-O3", "-v"}; }

BuildInputs build_inputs(const KernelSpec& spec, KernelSource source, const ToolchainVersions& versions) {
  return {.versions = versions,
          .nvrtc_options = nvrtc_options(spec.key.arch),
          .ptxas_options = ptxas_options(spec.key.arch),
          .spec = spec,
          .source = std::move(source)};
}

std::string build_key(const BuildInputs& inputs) {
  // A JSON text with sorted keys: every part is delimited, so no two inputs run together into one text.
  const KernelSpec& spec = inputs.spec;
  nlohmann::json document;
  document["format"] = inputs.generator_format;
  document["nvrtc"] = {{"version", inputs.versions.nvrtc}, {"options", inputs.nvrtc_options}};
  document["ptxas"] = {{"version", inputs.versions.ptxas}, {"options", inputs.ptxas_options}};
  document["name"] = spec.name;
  document["arch"] = spec.key.arch;
  document["params"] = spec.params;
  document["local_bytes"] = spec.allow_spills ? spec.allow_spills->bytes : 0;
  document["ordered_reduction"] = spec.ordered_reduction.has_value();
  document["template"] = {{"file", spec.source}, {"sha256", sha256_hex(inputs.source.template_text)}};
  document["holes"] = inputs.source.holes;
  document["headers"] = nlohmann::json::object();
  for (const auto& [name, text] : inputs.source.headers) document["headers"][name] = sha256_hex(text);
  return sha256_hex(document.dump());
}

}  // namespace stratum::gen
