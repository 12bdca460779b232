// How a pack differs from what the plans and templates ask for, told without compiling.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/manifest.h"
#include "generator/command/work_list.h"

namespace stratum::gen {

struct Difference {
  std::string kind;  // "missing", "extra", "changed", "damaged", "different"
  std::string name;  // the kernel
  std::string what;  // in words; may be empty
};

// Kernels that the pack lacks, has too many, or has from other inputs or with another row than planned; and files of it
// that are missing or altered.
std::vector<Difference> check_pack(const std::vector<WorkItem>& items, const Manifest& manifest,
                                   const std::filesystem::path& pack, const ToolchainPin& pin);

}  // namespace stratum::gen
