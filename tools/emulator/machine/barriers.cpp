#include "machine/barriers.h"

#include <fmt/format.h>

#include "exec/trap.h"

namespace stratum::emulator {

void Barriers::reset(std::vector<Warp>& warps, Order* order) {
  warps_ = &warps;
  order_ = order;
  live_ = static_cast<uint32_t>(warps.size());
  barriers_.fill({});
}

uint32_t Barriers::expected(const Barrier& barrier) const {
  return barrier.threads == kEveryThread ? live_ * kLanes : barrier.threads;
}

void Barriers::complete(uint32_t number) {
  Barrier& barrier = barriers_[number];
  if (order_) order_->complete(number, barrier.waiting, barrier.threads == kEveryThread);
  for (Warp& warp : *warps_) {
    if (!(barrier.waiting >> warp.index & 1)) continue;
    warp.waiting = false;
    if (barrier.reduction != Reduction::None) write_result(barrier, warp);
  }
  barrier = {};
}

void Barriers::write_result(const Barrier& barrier, Warp& warp) {
  uint32_t* to = reinterpret_cast<uint32_t*>(warp.registers + warp.step->row[0]);
  if (barrier.reduction == Reduction::Count) {
    for_each_lane(warp.active, [&](uint32_t lane) { to[lane] = barrier.holds; });
    return;
  }
  const bool result = barrier.reduction == Reduction::Or ? barrier.holds != 0 : barrier.holds == barrier.voters;
  *to = (*to & ~warp.active) | (result ? warp.active : 0);
}

void Barriers::arrive(Warp& warp, uint32_t number, uint32_t threads, bool waits, Reduction reduction, uint32_t holds) {
  if (number >= barriers_.size()) throw Trap(Check::Barrier, fmt::format("barrier {}: expected 0 to 15", number));
  if (threads % kLanes)
    throw Trap(Check::Barrier, fmt::format("a barrier for {} threads: expected a multiple of 32", threads));
  Barrier& barrier = barriers_[number];
  if (barrier.arrived && barrier.threads != threads) {
    const auto count = [](uint32_t of) { return of == kEveryThread ? "every thread" : fmt::format("{} threads", of); };
    throw Trap(Check::Barrier, fmt::format("barrier {} for {}: earlier arrivals were for {}", number, count(threads),
                                           count(barrier.threads)));
  }
  if (barrier.came >> warp.index & 1) {
    throw Trap(Check::Barrier, fmt::format("barrier {}: warp {} comes a second time, {} of {} threads have arrived",
                                           number, warp.index, barrier.arrived, expected(barrier)));
  }
  if (barrier.arrived && barrier.reduction != reduction) {
    throw Trap(Check::Barrier, fmt::format("barrier {}: earlier arrivals were for another reduction", number));
  }
  if (order_) order_->arrive(warp.index, number);
  barrier.reduction = reduction;
  barrier.voters += static_cast<uint32_t>(__builtin_popcount(warp.active));
  barrier.holds += static_cast<uint32_t>(__builtin_popcount(holds));
  barrier.threads = threads;
  barrier.arrived += kLanes;
  barrier.came |= uint32_t{1} << warp.index;
  if (waits) {
    barrier.waiting |= uint32_t{1} << warp.index;
    warp.waiting = true;
  }
  if (barrier.arrived >= expected(barrier)) complete(number);
}

void Barriers::leave(const Warp& warp) {
  --live_;
  if (order_) order_->end(warp.index);
  for (uint32_t i = 0; i < kBarriers; ++i)
    if (barriers_[i].arrived && barriers_[i].arrived >= expected(barriers_[i])) complete(i);
  if (live_) return;
  for (uint32_t i = 0; i < kBarriers; ++i) {
    if (!barriers_[i].arrived) continue;
    throw Trap(Check::Barrier, fmt::format("barrier {}: the block ends, and {} of {} threads have arrived", i,
                                           barriers_[i].arrived, expected(barriers_[i])));
  }
}

std::string Barriers::describe(const Warp& warp) const {
  for (size_t i = 0; i < barriers_.size(); ++i) {
    const Barrier& barrier = barriers_[i];
    if (barrier.waiting >> warp.index & 1) {
      return fmt::format("barrier {}, {} of {} threads arrived", i, barrier.arrived, expected(barrier));
    }
  }
  return "no barrier";
}

}  // namespace stratum::emulator
