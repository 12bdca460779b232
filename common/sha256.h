// SHA-256, as lower-case hexadecimal.
#pragma once

#include <string>
#include <string_view>

namespace stratum {

// The digest of `bytes`, 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace stratum
