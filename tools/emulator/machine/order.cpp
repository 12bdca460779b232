#include "machine/order.h"

#include <algorithm>

namespace stratum::emulator {

void Order::reset() {
  for (uint32_t warp = 0; warp < warps_; ++warp) {
    clocks_[warp].fill(0);
    clocks_[warp][warp] = 1;
  }
  for (Clock& barrier : barriers_) barrier.fill(0);
  ended_.fill(0);
}

void Order::join(Clock& into, const Clock& from) const {
  for (uint32_t warp = 0; warp < warps_; ++warp) into[warp] = std::max(into[warp], from[warp]);
}

void Order::arrive(uint32_t warp, uint32_t barrier) {
  join(barriers_[barrier], clocks_[warp]);
  ++clocks_[warp][warp];
}

void Order::complete(uint32_t barrier, uint32_t waiting, bool every) {
  if (every) join(barriers_[barrier], ended_);
  for_each_lane(waiting, [&](uint32_t warp) { join(clocks_[warp], barriers_[barrier]); });
  barriers_[barrier].fill(0);
}

}  // namespace stratum::emulator
