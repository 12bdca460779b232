// The copies to shared memory that a warp has in flight (cp.async). Every thread has groups of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/warp.h"

namespace stratum::emulator {

class AsyncCopies {
 public:
  // Copies `from_bytes` and fills the rest of `bytes` with zeros. Nothing is read before the copy arrives.
  struct Copy {
    std::byte* to;
    const std::byte* from;
    uint32_t bytes, from_bytes;
    uint64_t address = 0;    // of `to` in shared memory
    uint32_t undefined = 0;  // a bit for each byte read that nobody wrote
  };

  void clear();

  // Takes a copy as a part of the lane's next group. Unless it arrives now, its place in shared memory is poisoned.
  void issue(uint32_t lane, const Copy& copy, bool arrives);

  // Closes the group of each of the lanes.
  void commit(uint32_t lanes);

  // What the lanes have issued has arrived, but for their latest `but` groups.
  void wait(const Warp& warp, uint32_t lanes, uint32_t but);

 private:
  struct Pending {
    Copy copy;
    uint64_t group;
    bool arrived;
  };
  std::array<std::vector<Pending>, kLanes> pending_;
  std::array<uint64_t, kLanes> groups_{};  // that were committed
};

}  // namespace stratum::emulator
