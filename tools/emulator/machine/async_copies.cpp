#include "machine/async_copies.h"

#include <algorithm>
#include <cstring>

#include "machine/poison.h"

namespace stratum::emulator {
void AsyncCopies::perform(const Copy& copy) {
  if (copy.from_bytes) std::memcpy(copy.to, copy.from, copy.from_bytes);
  std::memset(copy.to + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
}

void AsyncCopies::clear() {
  for (std::vector<Pending>& pending : pending_) pending.clear();
  groups_.fill(0);
}

void AsyncCopies::issue(uint32_t lane, const Copy& copy) {
  std::memset(copy.to, kPoison, copy.bytes);
  pending_[lane].push_back({copy, groups_[lane]});
}

void AsyncCopies::commit(uint32_t lanes) {
  for_each_lane(lanes, [&](uint32_t lane) { ++groups_[lane]; });
}

void AsyncCopies::wait(uint32_t lanes, uint32_t but) {
  for_each_lane(lanes, [&](uint32_t lane) {
    std::vector<Pending>& pending = pending_[lane];
    const auto open = std::find_if(pending.begin(), pending.end(),
                                   [&](const Pending& one) { return one.group + but >= groups_[lane]; });
    std::for_each(pending.begin(), open, [](const Pending& one) { perform(one.copy); });
    pending.erase(pending.begin(), open);
  });
}

}  // namespace stratum::emulator
