// Where a kernel's parameters lie, as the image says that its module was loaded from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stratum::emulator::driver {

// In bytes, from where a launch's parameters begin: not always 0, for that place is a multiple of 16 only, and a
// kernel's first parameter may be aligned more strictly.
struct ParameterPlace {
  uint32_t offset, bytes;
};

// In their order. Of a cubin, what it says of each; of a text with "NAME(BYTES)" in it, one parameter; else nothing.
std::optional<std::vector<ParameterPlace>> parameter_places(const std::string& image, const std::string& kernel);

}  // namespace stratum::emulator::driver
