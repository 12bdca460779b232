#include "machine/mbarriers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "exec/trap.h"

namespace stratum::emulator {
namespace {

constexpr uint32_t kMostArrivals = (1u << 20) - 1;  // of a phase
constexpr int64_t kMostBytes = (1 << 20) - 1;
constexpr uint64_t kBytes = 8;  // of an mbarrier

}  // namespace

void Mbarriers::reset(std::vector<Warp>& warps, Order* order) {
  warps_ = &warps;
  order_ = order;
  mbarriers_.clear();
}

void Mbarriers::init(const Warp& warp, uint32_t lane, uint64_t address, uint32_t count) {
  if (count < 1 || count > kMostArrivals) {
    throw Trap(Check::Operand, fmt::format("an mbarrier for {} arrivals: expected 1 to {}", count, kMostArrivals));
  }
  if (std::ranges::find(mbarriers_, address, &Mbarrier::address) != mbarriers_.end()) {
    throw Trap(Check::Barrier, fmt::format("the mbarrier at {:#x} is initialised a second time", address));
  }
  if (mbarriers_.size() == kMostMbarriers) {
    throw Trap(Check::Limit, fmt::format("more than {} mbarriers in a block", kMostMbarriers));
  }
  mbarriers_.push_back({.address = address,
                        .thread = warp.index * kLanes + lane,
                        .clock = order_ ? order_->now(warp.index) : 0,
                        .expected = count,
                        .pending = count});
}

void Mbarriers::fence_inits(const Warp& warp) {
  for (Mbarrier& one : mbarriers_) one.fenced |= one.thread / kLanes == warp.index;
}

Mbarriers::Mbarrier& Mbarriers::at(const Warp& warp, uint64_t address) {
  const auto found = std::ranges::find(mbarriers_, address, &Mbarrier::address);
  if (found == mbarriers_.end()) {
    throw Trap(address % kBytes ? Check::Misaligned : Check::Barrier,
               fmt::format("no mbarrier was initialised at shared address {:#x}", address));
  }
  // Lanes of the warp that initialised it are in order as they run.
  if (order_ && found->thread / kLanes != warp.index && !order_->ordered(found->thread, found->clock, warp.index)) {
    throw Trap(Check::Race,
               fmt::format("the mbarrier at {:#x} was initialised by warp {}, lane {}; nothing orders the two", address,
                           found->thread / kLanes, found->thread % kLanes));
  }
  return *found;
}

void Mbarriers::complete_if_due(Mbarrier& one) {
  if (one.pending || one.bytes) return;
  if (one.in_flight) {
    throw Trap(Check::Barrier,
               fmt::format("phase {} of the mbarrier at {:#x} completes, and {} bytes that copies bring were not "
                           "announced and are still in flight",
                           one.phase, one.address, one.in_flight));
  }
  ++one.phase;
  one.pending = one.expected;
  if (order_) order_->complete_mbarrier(number(one), one.phase);
  for_each_lane(one.waiting, [&](uint32_t warp) { (*warps_)[warp].waiting = false; });
  one.waiting = 0;
}

void Mbarriers::arrive(const Warp& warp, uint64_t address, uint32_t count, uint32_t bytes) {
  Mbarrier& one = at(warp, address);
  if (count < 1 || count > one.pending) {
    throw Trap(Check::Barrier, fmt::format("{} arrivals at the mbarrier at {:#x}: phase {} expects {} of {} more",
                                           count, address, one.phase, one.pending, one.expected));
  }
  if (bytes) expect(warp, address, bytes);
  if (order_) order_->arrive_mbarrier(warp.index, number(one));
  one.pending -= count;
  complete_if_due(one);
}

void Mbarriers::expect(const Warp& warp, uint64_t address, uint32_t bytes) {
  Mbarrier& one = at(warp, address);
  one.bytes += bytes;
  if (one.bytes > kMostBytes) {
    throw Trap(Check::Barrier, fmt::format("the mbarrier at {:#x} expects {} bytes: at most {} can be announced",
                                           address, one.bytes, kMostBytes));
  }
}

bool Mbarriers::test(const Warp& warp, uint64_t address, uint32_t parity) {
  if (parity > 1) throw Trap(Check::Operand, fmt::format("a phase's parity: expected 0 or 1, got {}", parity));
  const Mbarrier& one = at(warp, address);
  if ((one.phase & 1) == parity) return false;
  if (order_) order_->wait_mbarrier(warp.index, number(one));
  return true;
}

void Mbarriers::wait(Warp& warp, uint64_t address) {
  at(warp, address).waiting |= uint32_t{1} << warp.index;
  warp.waiting = true;
}

Mbarriers::Delivery Mbarriers::begin_copy(const Warp& warp, uint64_t address, uint32_t bytes) {
  Mbarrier& one = at(warp, address);
  if (!one.fenced) {
    throw Trap(Check::Race,
               fmt::format("a tensor copy will arrive at the mbarrier at {:#x}, and no fence.mbarrier_init is between "
                           "its initialisation and the copy",
                           address));
  }
  one.in_flight += bytes;
  return {number(one), one.phase + 1};
}

void Mbarriers::end_copy(const Delivery& delivery, uint32_t bytes) {
  Mbarrier& one = mbarriers_[delivery.mbarrier];
  one.in_flight -= bytes;
  one.bytes -= bytes;
  if (one.bytes < -kMostBytes) {
    throw Trap(Check::Barrier, fmt::format("{} bytes have landed at the mbarrier at {:#x} that nobody announced",
                                           -one.bytes, one.address));
  }
  complete_if_due(one);
}

void Mbarriers::end() const {
  for (const Mbarrier& one : mbarriers_) {
    if (!one.in_flight) continue;
    throw Trap(Check::Barrier, fmt::format("the block ends, and {} bytes for the mbarrier at {:#x} are in flight",
                                           one.in_flight, one.address));
  }
}

std::string Mbarriers::describe(const Warp& warp) const {
  for (const Mbarrier& one : mbarriers_) {
    if (one.waiting >> warp.index & 1) {
      return fmt::format(
          "the mbarrier at {:#x}, whose phase {} (parity {}) still expects {} of {} arrivals and {} bytes", one.address,
          one.phase, one.phase & 1, one.pending, one.expected, one.bytes);
    }
  }
  return "";
}

}  // namespace stratum::emulator
