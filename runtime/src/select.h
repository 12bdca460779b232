// Which kernels of the pack serve an operation of a stratum on a device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/manifest.h"

namespace stratum {

struct ComputeCapability {
  int major = 0, minor = 0;
};

// What an engine asks the pack for, once for each operation.
struct Stratum {
  std::string family;
  std::string dtype;
  int32_t head_dim, gate_dim, group;
};

// The archs whose kernels run on a device, best first: the one for that very chip (sm_90a), then the portable one that
// covers it. Empty for a device that no kernel is built for.
std::vector<std::string> archs_for(ComputeCapability capability);

// The kernels that may serve an operation, in the order in which they are to be tried; empty if there are none.
std::vector<const ManifestKernel*> find_kernels(const Manifest& manifest, const Stratum& stratum,
                                                std::string_view operation, ComputeCapability capability);

// The kernels that may serve an operation, in the order in which they are to be tried: of each arch, best first, the
// variants of the exact group, or if there are none, of group 0. Throws Error (NO_KERNEL) if there are none at all; it
// says the key in words, the nearest one in the pack, the fields in which it differs and the command that adds it.
std::vector<const ManifestKernel*> select_kernels(const Manifest& manifest, const Stratum& stratum,
                                                  std::string_view operation, ComputeCapability capability);

}  // namespace stratum
