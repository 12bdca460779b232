// What a block has in flight that ends at a moment of its own: tensor copies and stores, wgmma. The copies of cp.async,
// which only their thread can wait for, are apart (async_copies.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/warp.h"

namespace stratum::emulator {

class AsyncWork {
 public:
  using Ticket = uint64_t;

  // Work of a chain ends in the order in which it began; of kNoChain, in any order. Chains 1 to 32 are the wgmma of the
  // block's warps.
  static constexpr uint64_t kNoChain = 0;
  static uint64_t wgmma_chain(const Warp& warp) { return 1 + warp.index; }
  uint64_t new_chain() { return next_chain_++; }

  // A new block: nothing is in flight.
  void reset();

  // The warp begins something with the step that it runs. `complete` is called once: now, between two turns of the
  // block's warps, or when somebody waits for the ticket, as Options::copies says.
  Ticket begin(Warp& warp, uint64_t chain, std::function<void()> complete);

  // Whether it has not ended.
  bool pending(Ticket ticket) const;

  // Ends it, if it is pending, and before that what is ahead of it in its chain.
  void finish(Ticket ticket);

  // Nothing else goes on: ends what began first. False if nothing is in flight.
  bool finish_oldest();

  // Ends, by chance, something or nothing; `chance` has the random numbers.
  void advance(Warp& chance);

  // Whose work ended last, or was about to when it failed; it then shows the step that began the work.
  const Warp& latest() const { return *latest_; }

 private:
  struct Operation {
    Ticket ticket;
    uint64_t chain;
    Warp* warp;
    const Step* step;
    std::function<void()> complete;
  };
  void complete(size_t index);

  static constexpr uint64_t kFirstNewChain = 64;
  std::vector<Operation> pending_;  // by ticket
  Ticket next_ = 0;
  uint64_t next_chain_ = kFirstNewChain;
  const Warp* latest_ = nullptr;
};

}  // namespace stratum::emulator
