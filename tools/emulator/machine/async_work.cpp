#include "machine/async_work.h"

#include <algorithm>
#include <utility>

#include "machine/options.h"

namespace stratum::emulator {

void AsyncWork::reset() {
  pending_.clear();
  next_ = 0;
  next_chain_ = kFirstNewChain;
}

AsyncWork::Ticket AsyncWork::begin(Warp& warp, uint64_t chain, std::function<void()> complete) {
  const Ticket ticket = next_++;
  pending_.push_back({ticket, chain, &warp, warp.step, std::move(complete)});
  const Arrival arrival = warp.options->copies;
  if (arrival == Arrival::AtIssue || (arrival == Arrival::Random && warp.random() % 4 == 0)) finish(ticket);
  return ticket;
}

bool AsyncWork::pending(Ticket ticket) const {
  return std::ranges::binary_search(pending_, ticket, {}, &Operation::ticket);
}

void AsyncWork::complete(size_t index) {
  const Operation operation = std::move(pending_[index]);
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  latest_ = operation.warp;
  const Step* const step = std::exchange(operation.warp->step, operation.step);
  operation.complete();
  operation.warp->step = step;
}

void AsyncWork::finish(Ticket ticket) {
  const auto found = std::ranges::lower_bound(pending_, ticket, {}, &Operation::ticket);
  if (found == pending_.end() || found->ticket != ticket) return;
  const uint64_t chain = found->chain;
  if (chain == kNoChain) return complete(static_cast<size_t>(found - pending_.begin()));
  for (size_t i = 0; i < pending_.size() && pending_[i].ticket <= ticket;) {
    if (pending_[i].chain == chain) {
      complete(i);
    } else {
      ++i;
    }
  }
}

bool AsyncWork::finish_oldest() {
  if (pending_.empty()) return false;
  finish(pending_.front().ticket);
  return true;
}

void AsyncWork::advance(Warp& chance) {
  if (!pending_.empty() && chance.random() % 2) finish(pending_[chance.random() % pending_.size()].ticket);
}

}  // namespace stratum::emulator
