// The copies to shared memory that a warp has in flight (cp.async). Every thread has groups of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/program.h"

namespace stratum::emulator {

class AsyncCopies {
 public:
  // Copies `from_bytes` and fills the rest of `bytes` with zeros. Nothing is read before the copy arrives.
  struct Copy {
    std::byte* to;
    const std::byte* from;
    uint32_t bytes, from_bytes;
  };

  static void perform(const Copy& copy);

  void clear();

  // Holds a copy back, as a part of the lane's next group; its place in shared memory is poisoned.
  void issue(uint32_t lane, const Copy& copy);

  // Closes the group of each of the lanes.
  void commit(uint32_t lanes);

  // Performs what the lanes have issued but for their latest `but` groups.
  void wait(uint32_t lanes, uint32_t but);

 private:
  struct Pending {
    Copy copy;
    uint64_t group;
  };
  std::array<std::vector<Pending>, kLanes> pending_;
  std::array<uint64_t, kLanes> groups_{};  // that were committed
};

}  // namespace stratum::emulator
