// The registers that a block was launched with, between whose warps setmaxnreg moves them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/warp.h"

namespace stratum::emulator {

class RegisterPool {
 public:
  // Every thread has `registers`; 0: nobody knows how many there are, and there are always enough.
  void reset(std::vector<Warp>& warps, uint32_t registers);

  // Each thread of the warp gives up all but `registers`, or gets as many; for the latter it stops (Warp::waiting) if
  // there aren't enough, and false is returned. Trap for a number that the instruction doesn't take, or the warp has
  // fewer, more.
  void give(const Warp& warp, uint32_t registers);
  bool take(Warp& warp, uint32_t registers);

  // What the warp, which waits, waits for; "" if not for registers.
  std::string describe(const Warp& warp) const;

 private:
  std::vector<Warp>* warps_ = nullptr;
  std::vector<uint32_t> held_;    // by each thread of each warp
  std::vector<uint32_t> wanted_;  // by those that wait, else 0
  bool known_ = false;
  uint64_t free_ = 0;
};

}  // namespace stratum::emulator
