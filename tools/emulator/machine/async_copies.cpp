#include "machine/async_copies.h"

#include <algorithm>
#include <cstring>

#include "machine/poison.h"
#include "machine/watch.h"

namespace stratum::emulator {
namespace {

void perform(const AsyncCopies::Copy& copy) {
  if (copy.from_bytes) std::memcpy(copy.to, copy.from, copy.from_bytes);
  std::memset(copy.to + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
}

}  // namespace

void AsyncCopies::clear() {
  for (std::vector<Pending>& pending : pending_) pending.clear();
  groups_.fill(0);
}

void AsyncCopies::issue(uint32_t lane, const Copy& copy, bool arrives) {
  if (arrives) {
    perform(copy);
  } else {
    std::memset(copy.to, kPoison, copy.bytes);
  }
  pending_[lane].push_back({copy, groups_[lane], arrives});
}

void AsyncCopies::commit(uint32_t lanes) {
  for_each_lane(lanes, [&](uint32_t lane) { ++groups_[lane]; });
}

void AsyncCopies::wait(const Warp& warp, uint32_t lanes, uint32_t but) {
  for_each_lane(lanes, [&](uint32_t lane) {
    std::vector<Pending>& pending = pending_[lane];
    const auto open = std::find_if(pending.begin(), pending.end(),
                                   [&](const Pending& one) { return one.group + but >= groups_[lane]; });
    std::for_each(pending.begin(), open, [&](const Pending& one) {
      if (!one.arrived) perform(one.copy);
      if (warp.watch) warp.watch->end_copy(warp, lane, one.copy.address, one.copy.bytes, one.copy.undefined);
    });
    pending.erase(pending.begin(), open);
  });
}

}  // namespace stratum::emulator
