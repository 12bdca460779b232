#include "machine/register_pool.h"

#include <fmt/format.h>

#include "exec/trap.h"

namespace stratum::emulator {
namespace {

void check(uint32_t registers) {
  if (registers % 8 || registers < 24 || registers > 256) {
    throw Trap(Check::Operand, fmt::format("{} registers: expected a multiple of 8 from 24 to 256", registers));
  }
}

}  // namespace

void RegisterPool::reset(std::vector<Warp>& warps, uint32_t registers) {
  warps_ = &warps;
  known_ = registers != 0;
  free_ = 0;
  held_.assign(warps.size(), registers);
  wanted_.assign(warps.size(), 0);
}

void RegisterPool::give(const Warp& warp, uint32_t registers) {
  check(registers);
  if (!known_) return;
  uint32_t& held = held_[warp.index];
  if (registers > held) {
    throw Trap(Check::Operand, fmt::format("the warp's threads keep {} registers, and have {}", registers, held));
  }
  free_ += uint64_t{kLanes} * (held - registers);
  held = registers;
  for (Warp& one : *warps_) {
    if (wanted_[one.index]) one.waiting = false;
  }
}

bool RegisterPool::take(Warp& warp, uint32_t registers) {
  check(registers);
  if (!known_) return true;
  uint32_t& held = held_[warp.index];
  if (registers < held) {
    throw Trap(Check::Operand, fmt::format("the warp's threads get {} registers, and have {}", registers, held));
  }
  const uint64_t more = uint64_t{kLanes} * (registers - held);
  wanted_[warp.index] = more <= free_ ? 0 : registers;
  if (more > free_) {
    warp.waiting = true;
    return false;
  }
  free_ -= more;
  held = registers;
  return true;
}

std::string RegisterPool::describe(const Warp& warp) const {
  if (!wanted_[warp.index]) return "";
  return fmt::format("{} registers a thread in place of {}: the block has {} to give, it needs {}", wanted_[warp.index],
                     held_[warp.index], free_, uint64_t{kLanes} * (wanted_[warp.index] - held_[warp.index]));
}

}  // namespace stratum::emulator
