// Which devices run the cubins of which target.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stratum {

// The targets whose cubins run on a device of this compute capability, best first: the one for that very chip (sm_90a),
// then the portable one that covers it. Empty for a device that no kernel is built for.
std::vector<std::string> archs_for_device(int major, int minor);

// The compute capabilities that run a target's cubins, for messages: "8.0, 8.6, 8.7, 8.9" for sm_80. Empty for a target
// unknown to this version.
std::string covered_devices(std::string_view arch);

}  // namespace stratum
