// Tensor maps.
#include <cstring>

#include "driver_support.h"

TEST_CASE("a tensor map's rules") {
  const Device device;
  alignas(64) unsigned char map[128] = {};
  alignas(32) static unsigned char data[64] = {};
  const uint64_t extents[] = {64, 300}, strides[] = {128};
  uint32_t box[] = {64, 16};
  const uint32_t steps[] = {1, 1};
  const auto encode = [&](const uint64_t* rows, int swizzle) {
    return cuTensorMapEncodeTiled(map, 9, 2, data, extents, rows, box, steps, 0, swizzle, 0, 0);
  };
  CHECK(encode(strides, 3) == 0);
  CHECK(std::memcmp(map, "TMAP\1\11\2\0\3", 9) == 0);
  const uint64_t odd[] = {120};
  CHECK(encode(odd, 3) == 1);
  CHECK_THAT(last_fault(), Catch::Contains("globalStrides[0]: expected a multiple of 16 below 2^40, got 120"));
  CHECK(encode(strides, 2) == 1);
  CHECK_THAT(last_fault(), Catch::Contains("the box's inner bytes: expected at most the swizzle's 64, got 128"));
  box[1] = 257;
  CHECK(encode(strides, 3) == 1);
  CHECK_THAT(last_fault(), Catch::Contains("boxDim[1]: expected 1 to 256, got 257"));
}
