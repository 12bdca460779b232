// The targets a plan may name and what a kernel may use on each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stratum::gen {

inline constexpr int kMaxRegisters = 255;  // a thread, on every target
inline constexpr int kMaxThreads = 1024;   // a block, on every target

struct Arch {
  std::string_view name;  // "sm_80"
  int max_shared_bytes;   // a block, on the smallest GPU that its cubins cover (common/arch_coverage.h)
  // Of the SM of the GPU that the target is named after, for the occupancy printed in tables.
  int sm_shared_bytes;
  int sm_warps;
  int sm_blocks;

  // "compute_80", NVRTC's name.
  std::string virtual_name() const;
  // "80" of sm_80, "90" of sm_90a: what a template's hole `arch` holds.
  std::string digits() const;
};

const std::vector<Arch>& archs();

// The target of that name, or null.
const Arch* find_arch(std::string_view name);

// Warps of this kernel that fit an SM at once; 0 if not one block does. `shared_bytes` is static and dynamic together.
int warps_per_sm(const Arch& arch, int registers, int64_t shared_bytes, int threads);

}  // namespace stratum::gen
