// Any bytes are a frame of just the content that was asked for, or an InputError. The first two say how much that is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/input_error.h"
#include "common/zstd_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const int64_t expected = data[0] | data[1] << 8;
  const std::string_view frame(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    if (stratum::zstd_decompress(frame, expected, "frame").size() != static_cast<size_t>(expected)) std::abort();
  } catch (const stratum::InputError&) {
  }
  return 0;
}
