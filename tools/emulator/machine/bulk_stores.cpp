#include "machine/bulk_stores.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/trap.h"
#include "machine/watch.h"

namespace stratum::emulator {

void BulkStores::clear() {
  for (std::vector<Pending>& pending : pending_) pending.clear();
  groups_.fill(0);
}

void BulkStores::commit(uint32_t lanes) {
  for_each_lane(lanes, [&](uint32_t lane) { ++groups_[lane]; });
}

// The clock up to which all stores have been waited for, given that of the newest one that has.
uint32_t BulkStores::read_up_to(uint32_t newest) const {
  for (const std::vector<Pending>& pending : pending_)
    for (const Pending& one : pending)
      if (!one.read) newest = std::min(newest, one.store.clock - 1);
  return newest;
}

void BulkStores::wait(Warp& warp, uint32_t lanes, uint32_t but, bool only_read) {
  uint32_t newest = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    std::vector<Pending>& pending = pending_[lane];
    const auto open = std::find_if(pending.begin(), pending.end(),
                                   [&](const Pending& one) { return one.group + but >= groups_[lane]; });
    std::for_each(pending.begin(), open, [&](Pending& one) {
      warp.work->finish(only_read ? one.store.read : one.store.write);
      one.read = true;
      newest = std::max(newest, one.store.clock);
    });
    if (!only_read) pending.erase(pending.begin(), open);
  });
  if (warp.watch && newest) warp.watch->end_async(warp, Agent::Bulk, read_up_to(newest));
}

void BulkStores::end() const {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (const Pending& one : pending_[lane]) {
      if (one.read) continue;
      throw Trap(Check::Race,
                 fmt::format("lane {} ends, and its store at line {} may still read shared memory: nothing "
                             "waits for it",
                             lane, one.store.line));
    }
  }
}

}  // namespace stratum::emulator
