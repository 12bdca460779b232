#include "common/arch_coverage.h"

#include <fmt/format.h>

#include <algorithm>

namespace stratum {
namespace {

struct ComputeCapability {
  int major, minor;

  bool operator==(const ComputeCapability&) const = default;
};

struct ArchCoverage {
  std::string_view arch;
  std::vector<ComputeCapability> devices;
};

// A chip's own target, which runs on no other chip, comes before the portable ones.
const std::vector<ArchCoverage>& table() {
  static const std::vector<ArchCoverage> rows = {
      {"sm_90a", {{9, 0}}},   {"sm_100a", {{10, 0}}},         {"sm_103a", {{10, 3}}},
      {"sm_120a", {{12, 0}}}, {"sm_121a", {{12, 1}}},         {"sm_80", {{8, 0}, {8, 6}, {8, 7}, {8, 9}}},
      {"sm_90", {{9, 0}}},    {"sm_100", {{10, 0}, {10, 3}}}, {"sm_120", {{12, 0}, {12, 1}}},
  };
  return rows;
}

}  // namespace

std::vector<std::string> archs_for_device(int major, int minor) {
  std::vector<std::string> archs;
  for (const ArchCoverage& row : table()) {
    if (std::ranges::find(row.devices, ComputeCapability{major, minor}) != row.devices.end()) {
      archs.emplace_back(row.arch);
    }
  }
  return archs;
}

std::string covered_devices(std::string_view arch) {
  std::string text;
  for (const ArchCoverage& row : table()) {
    if (row.arch != arch) continue;
    for (const auto& [major, minor] : row.devices) {
      text += fmt::format("{}{}.{}", text.empty() ? "" : ", ", major, minor);
    }
  }
  return text;
}

}  // namespace stratum
