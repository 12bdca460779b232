#include <fmt/format.h>
#include <zstd.h>

#include <stdexcept>

#include "common/zstd_codec.h"

namespace stratum {

std::string zstd_compress(std::string_view bytes) {
  constexpr int kLevel = 19;
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size)) throw std::runtime_error(fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  frame.resize(size);
  return frame;
}

}  // namespace stratum
