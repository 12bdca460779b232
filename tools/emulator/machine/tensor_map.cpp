#include "machine/tensor_map.h"

#include <algorithm>
#include <cstring>

namespace stratum::emulator {
namespace {

// Of CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion.
constexpr int kTypes = 16, kInt32 = 3, kInt64 = 5, k16U4Align8 = 13, k16U4Align16 = 14, k16U6Align16 = 15;
constexpr int kNoInterleave = 0, kInterleave32 = 2;
constexpr int kSwizzle128Atom32 = 4, kSwizzle128Atom64 = 6, kPromotions = 4;

constexpr char kMagic[4] = {'T', 'M', 'A', 'P'};
constexpr uint8_t kVersion = 1;
constexpr int kAddressAt = 16, kStridesAt = 24, kExtentsAt = 56, kBoxAt = 76, kElementStridesAt = 86;

// "name: expected WHAT, got VALUE"
std::string wrong(const std::string& name, const std::string& expected, uint64_t got) {
  return name + ": expected " + expected + ", got " + std::to_string(got);
}

std::string item(const char* array, int index) { return std::string(array) + "[" + std::to_string(index) + "]"; }

std::string problem_of_choices(const TensorMap& map) {
  if (map.type < 0 || map.type >= kTypes) return wrong("tensorDataType", "0 to 15", static_cast<uint64_t>(map.type));
  if (map.interleave < kNoInterleave || map.interleave > kInterleave32) return "interleave: expected 0 to 2";
  if (map.swizzle < kNoSwizzle || map.swizzle > kSwizzle128Atom64) return "swizzle: expected 0 to 6";
  if (map.l2_promotion < 0 || map.l2_promotion >= kPromotions) return "l2Promotion: expected 0 to 3";
  const int least = map.interleave == kNoInterleave ? 1 : 3;
  if (map.rank < least || map.rank > kMaxRank) {
    return wrong("tensorRank", std::to_string(least) + " to 5", static_cast<uint64_t>(map.rank));
  }
  if (map.interleave == kInterleave32 && map.swizzle != kSwizzle32) {
    return "swizzle: expected 32B with an interleave of 32B";
  }
  if (map.type == k16U6Align16 && map.interleave != kNoInterleave) return "interleave: expected none with 16U6";
  const bool has_128_only = map.type == k16U4Align16 || map.type == k16U6Align16;
  const bool fits = map.swizzle == kNoSwizzle || map.swizzle == kSwizzle128 || map.swizzle == kSwizzle128Atom32 ||
                    (map.type == k16U6Align16 && map.swizzle == kSwizzle128Atom64);
  if (has_128_only && !fits) return "swizzle: not one that the packed type has";
  const bool integer = map.type <= kInt64 || map.type >= k16U4Align8;
  if (map.nan_fill && integer) return "oobFill: NaN needs a floating-point type";
  return "";
}

std::string problem_of_array(const TensorMap& map) {
  constexpr uint64_t kMaxExtent = uint64_t{1} << 32, kMaxStride = uint64_t{1} << 40;
  const bool packed = map.type == k16U4Align16 || map.type == k16U6Align16;
  const uint64_t unit = map.interleave == kInterleave32 || packed ? 32 : 16;
  const std::string multiple = "a multiple of " + std::to_string(unit);
  if (map.address == 0 || map.address % unit != 0) return wrong("globalAddress", multiple, map.address);
  for (int axis = 0; axis < map.rank; ++axis) {
    const uint64_t extent = map.extents[axis];
    if (extent < 1 || extent > kMaxExtent) return wrong(item("globalDim", axis), "1 to 2^32", extent);
  }
  if (packed && map.extents[0] % 128 != 0) return wrong("globalDim[0]", "a multiple of 128", map.extents[0]);
  if (map.type == k16U4Align8 && map.extents[0] % 2 != 0) return wrong("globalDim[0]", "an even one", map.extents[0]);
  for (int axis = 0; axis + 1 < map.rank; ++axis) {
    const uint64_t stride = map.strides[axis];
    if (stride % unit != 0 || stride >= kMaxStride) {
      return wrong(item("globalStrides", axis), multiple + " below 2^40", stride);
    }
  }
  return "";
}

std::string problem_of_box(const TensorMap& map) {
  constexpr uint32_t kMaxBox = 256, kMaxElementStride = 8, kPackedBox = 128;
  for (int axis = 0; axis < map.rank; ++axis) {
    if (map.box[axis] < 1 || map.box[axis] > kMaxBox) return wrong(item("boxDim", axis), "1 to 256", map.box[axis]);
    if (map.element_strides[axis] < 1 || map.element_strides[axis] > kMaxElementStride) {
      return wrong(item("elementStrides", axis), "1 to 8", map.element_strides[axis]);
    }
  }
  const bool packed = map.type == k16U4Align16 || map.type == k16U6Align16;
  if (packed && map.box[0] != kPackedBox) return wrong("boxDim[0]", "128", map.box[0]);
  if (map.interleave != kNoInterleave || packed) return "";
  const uint64_t inner =
      map.type == k16U4Align8 ? map.box[0] / 2 : uint64_t{map.box[0]} * static_cast<uint64_t>(element_bytes(map.type));
  if (inner % 16 != 0) return wrong("the box's inner bytes", "a multiple of 16", inner);
  const uint64_t span = map.swizzle == kSwizzle32 ? 32 : map.swizzle == kSwizzle64 ? 64 : 128;
  if (map.swizzle != kNoSwizzle && inner > span) {
    return wrong("the box's inner bytes", "at most the swizzle's " + std::to_string(span), inner);
  }
  return "";
}

}  // namespace

int element_bytes(int type) {
  constexpr int kBytes[kTypes] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 0, 0, 0};
  static_assert(kBytes[kInt32] == 4);
  return kBytes[type];
}

std::string problem_of(const TensorMap& map) {
  for (const auto problem : {problem_of_choices, problem_of_array, problem_of_box}) {
    if (std::string text = problem(map); !text.empty()) return text;
  }
  return "";
}

void encode_tensor_map(const TensorMap& map, void* target) {
  auto* bytes = static_cast<uint8_t*>(target);
  std::memset(bytes, 0, kTensorMapBytes);
  std::memcpy(bytes, kMagic, sizeof(kMagic));
  const int choices[] = {kVersion, map.type, map.rank, map.interleave, map.swizzle, map.l2_promotion, map.nan_fill};
  std::ranges::transform(choices, bytes + sizeof(kMagic), [](int value) { return static_cast<uint8_t>(value); });
  std::memcpy(bytes + kAddressAt, &map.address, sizeof(map.address));
  std::memcpy(bytes + kStridesAt, map.strides, sizeof(uint64_t) * static_cast<size_t>(map.rank - 1));
  for (int axis = 0; axis < map.rank; ++axis) {
    const auto extent = static_cast<uint32_t>(map.extents[axis] - 1);
    const auto box = static_cast<uint16_t>(map.box[axis] - 1);
    std::memcpy(bytes + kExtentsAt + 4 * axis, &extent, sizeof(extent));
    std::memcpy(bytes + kBoxAt + 2 * axis, &box, sizeof(box));
    bytes[kElementStridesAt + axis] = static_cast<uint8_t>(map.element_strides[axis]);
  }
}

std::optional<TensorMap> decode_tensor_map(const void* source) {
  const auto* bytes = static_cast<const uint8_t*>(source);
  if (std::memcmp(bytes, kMagic, sizeof(kMagic)) != 0 || bytes[4] != kVersion) return std::nullopt;
  TensorMap map{.type = bytes[5],
                .rank = bytes[6],
                .interleave = bytes[7],
                .swizzle = bytes[8],
                .l2_promotion = bytes[9],
                .nan_fill = bytes[10] == 1};
  if (map.rank < 1 || map.rank > kMaxRank) return std::nullopt;
  std::memcpy(&map.address, bytes + kAddressAt, sizeof(map.address));
  std::memcpy(map.strides, bytes + kStridesAt, sizeof(uint64_t) * static_cast<size_t>(map.rank - 1));
  for (int axis = 0; axis < map.rank; ++axis) {
    uint32_t extent = 0;
    uint16_t box = 0;
    std::memcpy(&extent, bytes + kExtentsAt + 4 * axis, sizeof(extent));
    std::memcpy(&box, bytes + kBoxAt + 2 * axis, sizeof(box));
    map.extents[axis] = uint64_t{extent} + 1;
    map.box[axis] = box + uint32_t{1};
    map.element_strides[axis] = bytes[kElementStridesAt + axis];
  }
  return problem_of(map).empty() ? std::optional(map) : std::nullopt;
}

}  // namespace stratum::emulator
