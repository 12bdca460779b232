#include "tensor_map.h"

#include <algorithm>

#include "driver.h"

namespace stratum {
namespace {

constexpr int64_t kElementBytes = 2;
constexpr int64_t kStrideLimit = (int64_t{1} << 40) / kElementBytes;  // elements
constexpr int kBatch = 0, kToken = 1, kHead = 2, kDim = 3;            // axes of an array
constexpr uint32_t kBoxColumns = 64;                                  // 128 bytes, the widest swizzle

bool describable(const stratum_array& array) {
  return std::ranges::all_of(std::initializer_list{kBatch, kToken, kHead}, [&](int axis) {
    return array.shape[axis] == 1 || (array.stride[axis] > 0 && array.stride[axis] < kStrideLimit);
  });
}

}  // namespace

bool describable(std::initializer_list<const stratum_array*> arrays) {
  return std::ranges::all_of(arrays, [](const stratum_array* array) { return describable(*array); });
}

abi::TensorMap tensor_map(const stratum_array& array, int32_t rows) {
  const auto extent = [&](int axis) { return static_cast<uint64_t>(array.shape[axis]); };
  // An axis of one element may have any stride, even one that no map has; it is never taken.
  const auto stride = [&](int axis) {
    return static_cast<uint64_t>((array.shape[axis] == 1 ? array.shape[kDim] : array.stride[axis]) * kElementBytes);
  };
  const uint64_t extents[] = {extent(kDim), extent(kHead), extent(kToken), extent(kBatch)};
  const uint64_t strides[] = {stride(kHead), stride(kToken), stride(kBatch)};
  const uint32_t columns = std::min(static_cast<uint32_t>(array.shape[kDim]), kBoxColumns);
  const uint32_t box[] = {columns, 1, static_cast<uint32_t>(rows), 1};
  const uint32_t steps[] = {1, 1, 1, 1};
  abi::TensorMap map;
  cuda::driver().tensor_map_encode_tiled(
      &map, cuda::kTensorMapUint16, 4, reinterpret_cast<void*>(array.data), extents, strides, box, steps,
      cuda::kTensorMapNoInterleave, columns == kBoxColumns ? cuda::kTensorMapSwizzle128 : cuda::kTensorMapSwizzle64,
      cuda::kTensorMapPromote256, cuda::kTensorMapFillZeros);
  return map;
}

}  // namespace stratum
