// Which kernel of the pack serves an operation of a stratum on a device.
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

// The variants of the best key of the pack, in the order in which they are to be tried: the best arch that has any; of
// that arch the exact group, else group 0. Throws Error (NO_KERNEL) that says the key in words, the nearest one in the
// pack, the fields in which it differs and the command that adds it.
std::vector<const ManifestKernel*> select_kernels(const Manifest& manifest, const Stratum& stratum,
                                                  std::string_view operation, ComputeCapability capability);

}  // namespace stratum
