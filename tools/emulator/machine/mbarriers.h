// The mbarriers of a block: objects in shared memory whose phases complete when as many arrivals have come as they
// expect and all the bytes that were announced have landed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/warp.h"
#include "machine/order.h"

namespace stratum::emulator {

class Mbarriers {
 public:
  // For a block that has none; `order`, unless it is null, learns what the mbarriers put in order.
  void reset(std::vector<Warp>& warps, Order* order);

  // A thread of the warp makes the 8 bytes at the shared address an mbarrier whose phases need `count` arrivals. Trap
  // for a count that the hardware doesn't take, and if there is one already.
  void init(const Warp& warp, uint32_t lane, uint64_t address, uint32_t count);
  // What the warp initialised is so for tensor copies too.
  void fence_inits(const Warp& warp);

  // Both announce `bytes` before they arrive, 0 for none. Trap for more arrivals than the phase expects.
  void arrive(const Warp& warp, uint64_t address, uint32_t count, uint32_t bytes);
  void expect(const Warp& warp, uint64_t address, uint32_t bytes);

  // Whether the phase of that parity is complete: the current one has the other parity. If so, what comes before it
  // comes before what the warp does next.
  bool test(const Warp& warp, uint64_t address, uint32_t parity);
  // The warp stops (Warp::waiting) until a phase of the mbarrier completes.
  void wait(Warp& warp, uint64_t address);

  // A tensor copy that the warp begins will bring `bytes`; returns what completes with it.
  struct Delivery {
    uint32_t mbarrier, phase;  // numbers, the latter from 1
  };
  Delivery begin_copy(const Warp& warp, uint64_t address, uint32_t bytes);
  // They have landed.
  void end_copy(const Delivery& delivery, uint32_t bytes);

  // The block has ended. Trap if a tensor copy is still in flight.
  void end() const;

  // What the warp, which waits, waits for; "" if for none of these.
  std::string describe(const Warp& warp) const;

 private:
  struct Mbarrier {
    uint64_t address;
    uint32_t thread, clock;  // that initialised it, and when
    bool fenced = false;
    uint32_t expected, pending;  // arrivals: of each phase, and still to come in this one
    int64_t bytes = 0;           // announced and not landed
    int64_t in_flight = 0;       // that tensor copies will bring
    uint32_t phase = 0;          // that goes on
    uint32_t waiting = 0;        // a bit a warp
  };
  // The mbarrier at the address. Trap if there is none, or nothing orders its initialisation before what the warp does.
  Mbarrier& at(const Warp& warp, uint64_t address);
  uint32_t number(const Mbarrier& one) const { return static_cast<uint32_t>(&one - mbarriers_.data()); }
  void complete_if_due(Mbarrier& one);

  std::vector<Warp>* warps_ = nullptr;
  Order* order_ = nullptr;
  std::vector<Mbarrier> mbarriers_;
};

}  // namespace stratum::emulator
