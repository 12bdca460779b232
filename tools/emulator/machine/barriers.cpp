#include "machine/barriers.h"

#include <fmt/format.h>

#include "exec/trap.h"

namespace stratum::emulator {

void Barriers::reset(std::vector<Warp>& warps) {
  warps_ = &warps;
  live_ = static_cast<uint32_t>(warps.size());
  barriers_.fill({});
}

uint32_t Barriers::expected(const Barrier& barrier) const {
  return barrier.threads == kEveryThread ? live_ * kLanes : barrier.threads;
}

void Barriers::complete(Barrier& barrier) {
  for (Warp& warp : *warps_)
    if (barrier.waiting >> warp.index & 1) warp.waiting = false;
  barrier = {};
}

void Barriers::arrive(Warp& warp, uint32_t number, uint32_t threads, bool waits) {
  if (number >= barriers_.size()) throw Trap(fmt::format("barrier {}: expected 0 to 15", number));
  if (threads % kLanes) throw Trap(fmt::format("a barrier for {} threads: expected a multiple of 32", threads));
  Barrier& barrier = barriers_[number];
  if (barrier.arrived && barrier.threads != threads) {
    const auto count = [](uint32_t of) { return of == kEveryThread ? "every thread" : fmt::format("{} threads", of); };
    throw Trap(
        fmt::format("barrier {} for {}: earlier arrivals were for {}", number, count(threads), count(barrier.threads)));
  }
  barrier.threads = threads;
  barrier.arrived += kLanes;
  if (waits) {
    barrier.waiting |= uint32_t{1} << warp.index;
    warp.waiting = true;
  }
  if (barrier.arrived >= expected(barrier)) complete(barrier);
}

void Barriers::leave() {
  --live_;
  for (Barrier& barrier : barriers_)
    if (barrier.arrived && barrier.arrived >= expected(barrier)) complete(barrier);
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
