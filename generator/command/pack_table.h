// Rows of a manifest as people and programs read them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/manifest.h"

namespace stratum::gen {

// Warps of the kernel that an SM of its target holds at once; 0 for a target unknown to this version.
int occupancy(const ManifestKernel& kernel);

// Kernel, registers, spills, shared memory, warps per SM, size.
std::string pack_table(const std::vector<ManifestKernel>& kernels);

// The manifest's rows, each with "warps_per_sm".
nlohmann::ordered_json kernels_to_json(const std::vector<ManifestKernel>& kernels);

}  // namespace stratum::gen
