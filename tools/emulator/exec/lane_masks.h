// Lanes of a warp as bits of a word.
#pragma once

#include <cstdint>

namespace stratum::emulator {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Calls f(lane) for every lane of the mask.
template <class F>
[[gnu::always_inline]] inline void for_each_lane(uint32_t lanes, F f) {
  for (; lanes; lanes &= lanes - 1) f(static_cast<uint32_t>(__builtin_ctz(lanes)));
}

}  // namespace stratum::emulator
