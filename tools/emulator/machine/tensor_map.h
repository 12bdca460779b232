// Tensor maps: what a tensor copy needs to know of an array. The driver's layout is its own secret; this is ours.
//
//   byte    0   4   magic "TMAP"
//           4   1   version, 1
//           5   1   data type         CUtensorMapDataType
//           6   1   rank              1 to 5
//           7   1   interleave        CUtensorMapInterleave
//           8   1   swizzle           CUtensorMapSwizzle
//           9   1   L2 promotion      CUtensorMapL2promotion
//          10   1   fill              1: NaN out of bounds, 0: zero
//          16   8   address
//          24   4×8 strides of axes 1 to 4, bytes
//          56   5×4 extents less one, elements; axis 0 is the one of stride one element
//          76   5×2 the box's extents less one, elements
//          86   5×1 element strides
//
// Numbers are little-endian, all other bytes 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stratum::emulator {

inline constexpr int kMaxRank = 5;
inline constexpr int kTensorMapBytes = 128;

// CUtensorMapSwizzle: those that a copy can have here.
enum TensorSwizzle { kNoSwizzle = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3 };

struct TensorMap {
  int type = 0;
  int rank = 1;
  uint64_t address = 0;
  uint64_t extents[kMaxRank] = {};      // elements
  uint64_t strides[kMaxRank - 1] = {};  // bytes, of axes 1 and up
  uint32_t box[kMaxRank] = {};          // elements
  uint32_t element_strides[kMaxRank] = {};
  int interleave = 0, swizzle = 0, l2_promotion = 0;
  bool nan_fill = false;

  bool operator==(const TensorMap&) const = default;
};

// What the map breaks of the rules that cuTensorMapEncodeTiled documents; empty if nothing.
std::string problem_of(const TensorMap& map);

// Writes kTensorMapBytes bytes. The map must have no problem.
void encode_tensor_map(const TensorMap& map, void* bytes);

// The map of such bytes; nothing if they aren't one.
std::optional<TensorMap> decode_tensor_map(const void* bytes);

// The bytes of an element; of the packed types 16U4 and 16U6, which are smaller than a byte, 0.
int element_bytes(int type);

}  // namespace stratum::emulator
