// Where the lanes of a memory instruction read or write. Only for the sources of row forms.
#pragma once

#include "exec/lanes.h"
#include "exec/trap.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {

inline constexpr uint64_t kLowestAddress = 4096;  // no global memory is below

struct Places {
  std::byte* of[kLanes];  // host memory; of lanes that run
};

// Checks each lane's access of `bytes`, which must be aligned to `align`, at the address in `address_row`, and finds
// its place in the host's memory. `which` counts the step's addresses.
template <Space space>
[[gnu::always_inline]] inline void find_unwatched_places(Warp& warp, const Step& step, uint32_t address_row, int which,
                                                         uint64_t bytes, uint64_t align, uint32_t lanes,
                                                         uint64_t* address, Places& places) {
  const uint64_t offset = static_cast<uint64_t>(step.offset[which]);
  if (step.wide[which]) {
    const uint64_t* from = row<uint64_t>(warp, address_row);
    for (uint32_t lane = 0; lane < kLanes; ++lane) address[lane] = from[lane] + offset;
  } else {
    const uint32_t* from = row<uint32_t>(warp, address_row);
    for (uint32_t lane = 0; lane < kLanes; ++lane) address[lane] = from[lane] + static_cast<uint32_t>(offset);
  }
  const uint64_t first = space == Space::Global ? kLowestAddress : space == Space::Shared ? kSharedBase : 0;
  const uint64_t size = space == Space::Global   ? ~uint64_t{0} - kLowestAddress
                        : space == Space::Shared ? warp.shared_bytes
                                                 : warp.parameter_bytes;
  std::byte* const base = space == Space::Global   ? nullptr
                          : space == Space::Shared ? warp.shared
                                                   : const_cast<std::byte*>(warp.parameters);
  for_each_lane(lanes, [&](uint32_t lane) {
    const uint64_t at = address[lane] - first;
    if (at >= size || size - at < bytes || (address[lane] & (align - 1))) {
      trap_access(warp, space, address[lane], bytes, align, lane);
    }
    if constexpr (space == Space::Global) {
      places.of[lane] = reinterpret_cast<std::byte*>(address[lane]);
    } else {
      places.of[lane] = base + at;
    }
  });
}

// The same, and tells the watch, if there is one, that the lanes read or write there.
template <Space space>
[[gnu::always_inline]] inline void find_places(Warp& warp, const Step& step, uint32_t address_row, int which,
                                               uint64_t bytes, uint64_t align, bool write, uint32_t lanes,
                                               Places& places) {
  uint64_t address[kLanes];
  find_unwatched_places<space>(warp, step, address_row, which, bytes, align, lanes, address, places);
  if (warp.watch) tell_watch(warp, space, write, address, static_cast<uint32_t>(bytes), lanes);
}

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
