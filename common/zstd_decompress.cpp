#include <fmt/format.h>
#include <zstd.h>

#include "common/input_error.h"
#include "common/zstd_codec.h"

namespace stratum {

std::string zstd_decompress(std::string_view frame, int64_t expected_bytes, std::string_view name) {
  const unsigned long long content = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content == ZSTD_CONTENTSIZE_ERROR) throw InputError(fmt::format("{}: not a zstd file", name));
  if (content != static_cast<unsigned long long>(expected_bytes)) {
    throw InputError(
        content == ZSTD_CONTENTSIZE_UNKNOWN
            ? fmt::format("{}: the zstd header does not tell the size, expected {} bytes", name, expected_bytes)
            : fmt::format("{}: expected {} bytes of content, got {}", name, expected_bytes, content));
  }
  std::string bytes(static_cast<size_t>(expected_bytes), '\0');
  const size_t size = ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) {
    throw InputError(fmt::format("{}: truncated or damaged: {}", name, ZSTD_getErrorName(size)));
  }
  return bytes;
}

}  // namespace stratum
