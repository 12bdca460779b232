// stratum-gen show: one kernel's key, plan, resources and code.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/input_error.h"
#include "common/json_fields.h"
#include "generator/command/commands.h"
#include "generator/command/pack_table.h"
#include "generator/command/print_json.h"
#include "generator/compile/child_process.h"
#include "generator/compile/toolchain.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const ManifestKernel& find_kernel(const Manifest& manifest, const ShowOptions& options) {
  if (const ManifestKernel* kernel = manifest.find(options.name)) return *kernel;
  std::vector<std::string> names;
  for (const ManifestKernel& kernel : manifest.kernels) names.push_back(kernel.name);
  const std::string near = nearest_word(options.name, names);
  throw InputError(fmt::format("{}: no kernel named {}{}; `list` shows those there are", options.pack.string(),
                               options.name, near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
}

// nvdisasm or cuobjdump, with the arguments that go before the file.
std::vector<std::string> find_disassembler() {
  for (const fs::path& folder : program_folders(".")) {
    if (const fs::path program = folder / "nvdisasm"; fs::exists(program)) return {program.string(), "-c"};
    if (const fs::path program = folder / "cuobjdump"; fs::exists(program)) return {program.string(), "-sass"};
  }
  throw ToolchainError(
      "--sass needs nvdisasm or cuobjdump on PATH, in $CUDA_HOME/bin, in /usr/local/cuda/bin or among the packages of "
      ".venv, and "
      "there is neither; the CUDA toolkit has both, the Python wheel nvidia-cuda-nvdisasm the first");
}

std::string disassemble(const std::string& cubin) {
  std::vector<std::string> command = find_disassembler();
  const TemporaryFolder folder;
  replace_file(folder.path() / "kernel.cubin", cubin);
  command.emplace_back("kernel.cubin");
  const ChildResult result = run_child(command, folder.path());
  if (result.exit_code != 0 || result.signal != 0) {
    throw ToolchainError(fmt::format("{} failed:\n{}", command[0], result.output));
  }
  return result.output;
}

void print_facts(const ManifestKernel& kernel) {
  const auto line = [](std::string_view name, const std::string& value) { fmt::print("{:<19} {}\n", name, value); };
  const auto file = [](const PackFile& f) { return fmt::format("{}, {} bytes, sha256 {}", f.file, f.bytes, f.sha256); };
  line("name", kernel.name);
  line("key", describe_key(kernel.key));
  line("plan", kernel.plan);
  for (const auto& [field, value] : kernel.tile) line("  " + field, std::to_string(value));
  line("variant",
       fmt::format("{}, when {}", kernel.variant, kernel.when.always() ? "always" : when_to_json(kernel.when).dump()));
  if (kernel.allow_spills) {
    line("allow_spills", fmt::format("{} bytes: {}", kernel.allow_spills->bytes, kernel.allow_spills->why));
  }
  if (kernel.ordered_reduction) line("ordered_reduction", *kernel.ordered_reduction);
  line("build_key", kernel.build_key);
  line("cubin", file(kernel.cubin));
  line("ptx", file(kernel.ptx));
  line("params", fmt::format("{}, {} bytes", kernel.params.name, kernel.params.bytes));
  line("block", fmt::format("{} threads, cluster of {}", kernel.block, kernel.cluster));
  line("shared memory", fmt::format("{} bytes dynamic, {} static", kernel.shared_bytes, kernel.static_shared_bytes));
  line("registers",
       fmt::format("{}, {} bytes of spills, {} bytes local", kernel.registers, kernel.spill_bytes, kernel.local_bytes));
  line("warps per SM", std::to_string(occupancy(kernel)));
}

}  // namespace

int run_show(const ShowOptions& options) {
  const Manifest manifest = read_manifest(options.pack);
  const ManifestKernel& kernel = find_kernel(manifest, options);
  const std::string ptx = options.ptx ? read_pack_file(options.pack, kernel.ptx) : "";
  const std::string sass = options.sass ? disassemble(read_pack_file(options.pack, kernel.cubin)) : "";
  if (options.json) {
    ordered_json result = {{"ok", true}};
    result.update(kernels_to_json({kernel})[0]);
    if (options.ptx) result["ptx_text"] = ptx;
    if (options.sass) result["sass_text"] = sass;
    print_json(result);
  } else if (options.ptx || options.sass) {
    fmt::print("{}{}", ptx, sass);
  } else {
    print_facts(kernel);
  }
  return kDone;
}

}  // namespace stratum::gen
