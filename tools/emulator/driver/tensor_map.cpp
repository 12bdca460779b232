// cuTensorMapEncodeTiled: machine/tensor_map.h is what it writes.
#include "machine/tensor_map.h"

#include <algorithm>

#include "driver/call.h"

namespace stratum::emulator::driver {

extern "C" Result cuTensorMapEncodeTiled(void* target, int type, uint32_t rank, void* address, const uint64_t* extents,
                                         const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                                         int interleave, int swizzle, int l2_promotion, int fill) {
  constexpr uintptr_t kAlignment = 64;
  return call("cuTensorMapEncodeTiled", [&](State& s) {
    const auto refuse = [&](const std::string& text) {
      return s.refuse(kInvalidValue, "cuTensorMapEncodeTiled: " + text);
    };
    if (reinterpret_cast<uintptr_t>(target) % kAlignment != 0) return refuse("tensorMap: expected a multiple of 64");
    if (rank < 1 || rank > kMaxRank) return refuse("tensorRank: expected 1 to 5, got " + std::to_string(rank));
    if (fill != 0 && fill != 1) return refuse("oobFill: expected 0 or 1");
    TensorMap map{.type = type,
                  .rank = static_cast<int>(rank),
                  .address = reinterpret_cast<uint64_t>(address),
                  .interleave = interleave,
                  .swizzle = swizzle,
                  .l2_promotion = l2_promotion,
                  .nan_fill = fill == 1};
    std::copy_n(extents, rank, map.extents);
    if (rank > 1) std::copy_n(strides, rank - 1, map.strides);
    std::copy_n(box, rank, map.box);
    std::copy_n(element_strides, rank, map.element_strides);
    if (const std::string problem = problem_of(map); !problem.empty()) return refuse(problem);
    encode_tensor_map(map, target);
    return kSuccess;
  });
}

}  // namespace stratum::emulator::driver
