#include "generator/command/pack_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "generator/command/table.h"
#include "generator/plan/arch.h"

namespace stratum::gen {

int occupancy(const ManifestKernel& kernel) {
  const Arch* arch = find_arch(kernel.key.arch);
  if (arch == nullptr) return 0;
  return warps_per_sm(*arch, kernel.registers, int64_t{kernel.shared_bytes} + kernel.static_shared_bytes, kernel.block);
}

std::string pack_table(const std::vector<ManifestKernel>& kernels) {
  Table table({"kernel", "registers", "spills", "shared", "warps/SM", "cubin"});
  for (const ManifestKernel& kernel : kernels) {
    table.add({kernel.name, std::to_string(kernel.registers), std::to_string(kernel.spill_bytes),
               std::to_string(int64_t{kernel.shared_bytes} + kernel.static_shared_bytes),
               std::to_string(occupancy(kernel)), kibibytes(kernel.cubin.bytes)});
  }
  return table.text();
}

nlohmann::ordered_json kernels_to_json(const std::vector<ManifestKernel>& kernels) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ManifestKernel& kernel : kernels) {
    nlohmann::ordered_json row = kernel_to_json(kernel);
    row["warps_per_sm"] = occupancy(kernel);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace stratum::gen
