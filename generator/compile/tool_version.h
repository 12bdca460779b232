// The version that NVIDIA's tools print and write at the head of PTX.
#pragma once

#include <string>

namespace stratum::gen {

// "13.0.88" of a text with "Cuda compilation tools, release 13.0, V13.0.88"; "" if it has nothing of the kind.
std::string find_tool_version(const std::string& text);

}  // namespace stratum::gen
