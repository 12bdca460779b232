// The tensor stores that a warp has in flight. Every thread has groups of its own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/warp.h"
#include "machine/async_work.h"

namespace stratum::emulator {

class BulkStores {
 public:
  struct Store {
    AsyncWork::Ticket read = 0, write = 0;  // of shared memory, then to global memory
    uint32_t clock = 0;                     // of what it reads, as Watch::begin_async gave it
    int line = 0;
  };

  void clear();

  // Takes a store as a part of the lane's next group.
  void issue(uint32_t lane, const Store& store) { pending_[lane].push_back({store, groups_[lane]}); }

  // Closes the group of each of the lanes.
  void commit(uint32_t lanes);

  // What the lanes have issued has ended, but for their latest `but` groups; or has only been read.
  void wait(Warp& warp, uint32_t lanes, uint32_t but, bool only_read);

  // The warp has ended. Trap if a store may still read the shared memory that ends with the block.
  void end() const;

 private:
  struct Pending {
    Store store;
    uint64_t group;
    bool read = false;  // its thread has waited for that
  };
  uint32_t read_up_to(uint32_t newest) const;

  std::array<std::vector<Pending>, kLanes> pending_;
  std::array<uint64_t, kLanes> groups_{};  // that were committed
};

}  // namespace stratum::emulator
