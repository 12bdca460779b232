#include "machine/warpgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/trap.h"
#include "machine/options.h"
#include "machine/poison.h"
#include "machine/watch.h"

namespace stratum::emulator {
namespace {

constexpr uint32_t kAllWarps = (1u << kWarpsOfGroup) - 1;
constexpr size_t kRowBytes = 4 * kLanes;

}  // namespace

void Warpgroup::reset() {
  events_.clear();
  first_event_ = 0;
  products_.clear();
  members_.fill({});
}

// Numbers the warp's next event, or finds that it is another one than that of the warps that were there before.
void Warpgroup::come(const Warp& warp, uint64_t a, uint64_t b) {
  const uint64_t number = members_[place(warp)].events++;
  if (number == first_event_ + events_.size()) {
    for (uint32_t i = 0; i < kWarpsOfGroup; ++i) {
      if (warps_[i].live) continue;
      throw Trap(Check::Converged, fmt::format("warp {} of the warpgroup has ended", warps_[i].index));
    }
    events_.push_back({warp.step, a, b, 0});
  }
  Event& event = events_[number - first_event_];
  if (event.step != warp.step) {
    throw Trap(Check::Converged, fmt::format("other warps of the warpgroup come to line {} here", event.step->line));
  }
  if (event.a != a || event.b != b) {
    throw Trap(Check::Converged, fmt::format("descriptors {:#x}, {:#x}: the warpgroup's other warps have {:#x}, {:#x}",
                                             a, b, event.a, event.b));
  }
  event.came |= 1u << place(warp);
  while (!events_.empty() && events_.front().came == kAllWarps) {
    events_.pop_front();
    ++first_event_;
  }
}

void Warpgroup::fence(Warp& warp) {
  come(warp);
  members_[place(warp)].fenced = true;
  if (warp.watch) warp.watch->fence_registers(warp);
}

void Warpgroup::issue(Warp& warp, const WarpgroupProduct& operands, Compute compute, uint64_t a, uint64_t b) {
  come(warp, a, b);
  if (!members_[place(warp)].fenced) throw Trap(Check::InFlight, "no wgmma.fence is before the warp's first product");
  Product& product = product_of(warp, operands, compute);
  if (warp.watch) product.clocks[place(warp)] = warp.watch->begin_product(warp, operands);
  if (warp.options->copies != Arrival::AtIssue) keep(warp, product);
  product.came |= 1u << place(warp);
  if (product.came != kAllWarps) return;
  begin(warp, product);
  for (uint32_t i = 0; i < kWarpsOfGroup; ++i) {
    if (members_[i].needs && can_finish(members_[i].needs)) warps_[i].waiting = false;
  }
}

// The product that the warp issues: the first that it hasn't, or a new one.
Warpgroup::Product& Warpgroup::product_of(const Warp& warp, const WarpgroupProduct& operands, Compute compute) {
  for (Product& product : products_) {
    if (product.came >> place(warp) & 1) continue;
    if (product.operands.adds == operands.adds) return product;
    throw Trap(Check::Converged, "whether D is added to differs between the warps of the warpgroup");
  }
  Product& product = products_.emplace_back(
      Product{.operands = operands, .compute = compute, .step = warp.step, .group = members_[place(warp)].groups});
  for (uint32_t i = 0; i < kWarpsOfGroup; ++i) product.operands.registers[i] = warps_[i].registers;
  return product;
}

// Keeps what the warp's accumulators hold, and poisons them. Where an earlier product is still to add to them they are
// poison already, or have the sum so far.
void Warpgroup::keep(const Warp& warp, Product& product) {
  const std::vector<uint32_t>& rows = product.step->accumulators;
  const bool chained = std::ranges::any_of(products_, [&](const Product& earlier) {
    return &earlier != &product && (earlier.came >> place(warp) & 1) &&
           (!earlier.begun || warp.work->pending(earlier.ticket)) && earlier.step->accumulators == rows;
  });
  if (chained) return;
  if (product.operands.adds) {
    std::vector<uint32_t>& before = product.before[place(warp)];
    before.resize(rows.size() * kLanes);
    for (size_t i = 0; i < rows.size(); ++i) std::memcpy(&before[i * kLanes], warp.registers + rows[i], kRowBytes);
    product.operands.before[place(warp)] = before.data();
  }
  for (const uint32_t row : rows) std::memset(warp.registers + row, kPoison, kRowBytes);
}

void Warpgroup::begin(Warp& warp, Product& product) {
  product.begun = true;
  product.ticket =
      warp.work->begin(warp, AsyncWork::wgmma_chain(*warps_), [&product] { product.compute(product.operands); });
}

void Warpgroup::commit(Warp& warp) {
  come(warp);
  ++members_[place(warp)].groups;
}

void Warpgroup::wait(Warp& warp, uint32_t but) {
  come(warp);
  Member& member = members_[place(warp)];
  const uint64_t groups = member.groups - std::min<uint64_t>(member.groups, but);
  if (can_finish(groups)) return finish(warp, groups);
  member.needs = groups;
  warp.waiting = true;
}

void Warpgroup::resume(Warp& warp) {
  Member& member = members_[place(warp)];
  if (member.needs) finish(warp, member.needs);
  member.needs = 0;
}

// Whether all have issued the products of the first `groups` groups.
bool Warpgroup::can_finish(uint64_t groups) const {
  return std::ranges::none_of(products_, [&](const Product& one) { return one.group < groups && !one.begun; });
}

// Completes the products of the first `groups` groups, for which the warp then has waited.
void Warpgroup::finish(Warp& warp, uint64_t groups) {
  const uint32_t bit = 1u << place(warp);
  for (Product& product : products_) {
    if (product.group >= groups) break;
    warp.work->finish(product.ticket);
    if (product.waited & bit) continue;
    product.waited |= bit;
    if (warp.watch) warp.watch->end_product(warp, *product.step, product.clocks[place(warp)]);
  }
  while (!products_.empty() && products_.front().waited == kAllWarps) products_.pop_front();
}

void Warpgroup::leave(const Warp& warp) {
  for (const Product& product : products_) {
    if (!(product.came >> place(warp) & 1) || (product.waited >> place(warp) & 1)) continue;
    throw Trap(Check::InFlight,
               fmt::format("the warp ends without a wait for its wgmma at line {}", product.step->line));
  }
  if (members_[place(warp)].events == first_event_ + events_.size()) return;
  throw Trap(Check::Converged, fmt::format("the warp ends, and other warps of its warpgroup have come to line {}",
                                           events_[members_[place(warp)].events - first_event_].step->line));
}

std::string Warpgroup::describe(const Warp& warp) const {
  if (!members_[place(warp)].needs) return "";
  for (const Product& product : products_) {
    if (product.begun) continue;
    uint32_t other = 0;
    while (product.came >> other & 1) ++other;
    return fmt::format("the wgmma at line {}, to which warp {} hasn't come", product.step->line, warps_[other].index);
  }
  return "";
}

}  // namespace stratum::emulator
