// stratum-gen list: what is in a pack.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "generator/command/commands.h"
#include "generator/command/pack_table.h"
#include "generator/command/print_json.h"
#include "generator/command/work_list.h"

namespace stratum::gen {

int run_list(const ListOptions& options) {
  std::vector<ManifestKernel> kernels = read_manifest(options.pack).kernels;
  std::erase_if(kernels, [&](const ManifestKernel& kernel) {
    return !options.filters.empty() && std::ranges::none_of(options.filters, [&](const std::string& filter) {
      return matches(filter, kernel.name);
    });
  });
  if (options.json) {
    print_json({{"ok", true}, {"pack", options.pack.string()}, {"kernels", kernels_to_json(kernels)}});
  } else {
    fmt::print("{}{} kernels in {}\n", pack_table(kernels), kernels.size(), options.pack.string());
  }
  return kDone;
}

}  // namespace stratum::gen
