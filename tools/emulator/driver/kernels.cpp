#include "driver/kernels.h"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "common/file.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"
#include "exec/program.h"

namespace stratum::emulator::driver {
namespace {

std::filesystem::path pack_folder() {
  if (const std::string& chosen = state().settings.pack; !chosen.empty()) return chosen;
  std::string library;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const std::string_view name = info->dlpi_name;
        if (name.ends_with("/libstratum.so")) *static_cast<std::string*>(found) = name;
        return 0;
      },
      &library);
  return std::filesystem::path(library).parent_path() / "cubins";
}

}  // namespace

Kernels& Kernels::get() {
  static Kernels kernels;
  return kernels;
}

Kernels::Kernels() : mma(state().settings.mma), folder_(pack_folder()), manifest_(read_manifest(folder_)) {}

const Kernel& Kernels::of(const Function& function) {
  auto packed = packed_.find(function.module->image);
  if (packed == packed_.end()) {
    const ManifestKernel& found = row(function);
    packed = packed_.emplace(function.module->image, Kernel::load(text(found), found.name)).first;
  }
  const auto other = replaced_.find(function.name);
  return other != replaced_.end() ? other->second : packed->second;
}

const ManifestKernel& Kernels::row(const Function& function) const {
  const std::string hash = sha256_hex(function.module->image);
  const auto found = std::ranges::find_if(manifest_.kernels, [&](const auto& row) { return row.cubin.sha256 == hash; });
  if (found != manifest_.kernels.end()) return *found;
  throw std::runtime_error("the pack in " + folder_.string() + " has no cubin of hash " + hash);
}

Counters* Kernels::counters(const Function& function) {
  if (!checks || replaced_.contains(function.name)) return nullptr;
  return &counted_.try_emplace(function.name, Counted{&of(function), {}}).first->second.counters;
}

std::vector<int64_t> Kernels::executed(const std::string& name) const {
  const auto found = counted_.find(name);
  if (found == counted_.end()) return {};
  const std::vector<Step>& steps = found->second.kernel->program().steps;
  const std::vector<StepCounts>& counts = found->second.counters.steps;
  std::vector<int64_t> lines;
  // The last step is the return at the end, which has no line of its own.
  for (size_t i = 0; i + 1 < std::min(steps.size(), counts.size()); ++i) {
    const auto line = static_cast<size_t>(steps[i].line);
    if (line >= lines.size()) lines.resize(line + 1, -1);
    lines[line] = std::max<int64_t>(lines[line], 0) + static_cast<int64_t>(counts[i].executed);
  }
  return lines;
}

std::string Kernels::counters_json(const std::string& name) const {
  const auto found = counted_.find(name);
  if (found == counted_.end()) return {};
  const std::vector<Step>& steps = found->second.kernel->program().steps;
  const Counters& counters = found->second.counters;
  std::string lines, warps;
  for (size_t i = 0; i + 1 < std::min(steps.size(), counters.steps.size()); ++i) {
    const StepCounts& one = counters.steps[i];
    lines += fmt::format("{}[{},{},{},{},{},{},{},{}]", lines.empty() ? "" : ",", steps[i].line, one.executed,
                         one.lanes, one.bytes, one.sectors, one.wavefronts, one.least_wavefronts, one.ticks);
  }
  for (const std::vector<uint64_t>& warp : counters.executed) {
    warps += fmt::format("{}{}", warps.empty() ? "" : ",", std::accumulate(warp.begin(), warp.end(), uint64_t{0}));
  }
  return fmt::format("{{\"blocks\":{},\"lines\":[{}],\"warps\":[{}]}}", counters.blocks, lines, warps);
}

std::string Kernels::text(std::string_view name) const {
  for (const ManifestKernel& row : manifest_.kernels)
    if (row.name == name) return text(row);
  throw std::invalid_argument("the pack in " + folder_.string() + " has no kernel '" + std::string(name) + "'");
}

std::string Kernels::text(const ManifestKernel& row) const {
  return zstd_decompress(read_file(folder_ / row.ptx.file), row.ptx.bytes, row.ptx.file);
}

void Kernels::replace(const std::string& name, std::string_view ptx) {
  replaced_.insert_or_assign(name, Kernel::load(ptx, name));
}

void Kernels::restore(const std::string& name) { replaced_.erase(name); }

}  // namespace stratum::emulator::driver
