// zstd compression of whole buffers. The two directions are in two files, so that a program that only reads links no
// compressor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stratum {

// One frame at level 19 with the content's size in its header. Equal bytes give equal frames for one zstd version.
std::string zstd_compress(std::string_view bytes);

// The content of one frame, which must be exactly `expected_bytes` long: nothing larger is ever allocated. `name` says
// what the data is in the InputError that anything else throws.
std::string zstd_decompress(std::string_view frame, int64_t expected_bytes, std::string_view name);

}  // namespace stratum
