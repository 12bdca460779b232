// Which of a block's accesses happen before which: a vector clock a warp.
//
// A warp's own clock ticks whenever its lanes are put in order (bar.warp.sync) and whenever it arrives at a barrier. An
// access is known by its thread and by the clock that the thread's warp showed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/lane_masks.h"

namespace stratum::emulator {

inline constexpr uint32_t kMostWarps = 32;  // of a block
inline constexpr uint32_t kBarriers = 16;

class Order {
 public:
  explicit Order(uint32_t warps) : warps_(warps), clocks_(warps) { reset(); }

  // A new block: nothing has happened.
  void reset();

  uint32_t warps() const { return warps_; }
  uint32_t now(uint32_t warp) const { return clocks_[warp][warp]; }

  // Whether what a thread did at `clock` happens before what another thread, of `warp`, does now.
  bool ordered(uint32_t thread, uint32_t clock, uint32_t warp) const {
    const uint32_t by = thread / kLanes;
    return by == warp ? clock < now(warp) : clock <= clocks_[warp][by];
  }

  void sync_lanes(uint32_t warp) { ++clocks_[warp][warp]; }
  void arrive(uint32_t warp, uint32_t barrier);
  // The warp has ended.
  void end(uint32_t warp) { join(ended_, clocks_[warp]); }
  // All have arrived; the warps in the mask go on. A barrier for every thread completes after others have ended.
  void complete(uint32_t barrier, uint32_t waiting, bool every);

 private:
  using Clock = std::array<uint32_t, kMostWarps>;
  void join(Clock& into, const Clock& from) const;

  uint32_t warps_;
  std::vector<Clock> clocks_;              // of each warp: how far it has seen each warp
  std::array<Clock, kBarriers> barriers_;  // what those that have arrived had seen,
  Clock ended_;                            // and those that have ended
};

}  // namespace stratum::emulator
