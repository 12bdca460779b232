#include "machine/order.h"

#include <algorithm>

namespace stratum::emulator {

void Order::reset() {
  for (uint32_t warp = 0; warp < warps_; ++warp) {
    clocks_[warp] = {};
    clocks_[warp].seen[warp] = synced_[warp] = 1;
  }
  barriers_.fill({});
  std::ranges::fill(mbarriers_, Mbarrier{});
  begun_.fill(0);
  ended_ = {};
}

void Order::join(Clock& into, const Clock& from) {
  for (uint32_t i = 0; i < kComponents; ++i) into.seen[i] = std::max(into.seen[i], from.seen[i]);
  for (uint32_t i = 0; i < kMostWarps; ++i) into.fenced[i] = std::max(into.fenced[i], from.fenced[i]);
}

void Order::fence_proxy(uint32_t warp) {
  Clock& clock = clocks_[warp];
  std::copy_n(clock.seen.begin(), kMostWarps, clock.fenced.begin());
  ++clock.seen[warp];
}

void Order::arrive(uint32_t warp, uint32_t barrier) {
  join(barriers_[barrier], clocks_[warp]);
  sync_lanes(warp);
}

void Order::complete(uint32_t barrier, uint32_t waiting, bool every) {
  if (every) join(barriers_[barrier], ended_);
  for_each_lane(waiting, [&](uint32_t warp) { join(clocks_[warp], barriers_[barrier]); });
  barriers_[barrier] = {};
}

void Order::end_async(uint32_t warp, Agent agent, uint32_t clock) {
  uint32_t& seen = clocks_[warp].seen[component(agent_of(warp, agent))];
  seen = std::max(seen, clock);
}

void Order::arrive_mbarrier(uint32_t warp, uint32_t mbarrier) {
  join(mbarriers_[mbarrier].arriving, clocks_[warp]);
  ++clocks_[warp].seen[warp];
}

void Order::complete_mbarrier(uint32_t mbarrier, uint32_t phase) {
  Mbarrier& one = mbarriers_[mbarrier];
  one.complete = one.arriving;
  one.complete.seen[component(kFirstMbarrier + mbarrier)] = phase;
  one.arriving = {};
}

}  // namespace stratum::emulator
