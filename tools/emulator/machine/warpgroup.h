// Four warps that multiply together (wgmma), and their products in flight.
//
// All four execute the same sequence of fences, products, commits and waits, but none waits for the others before it
// has to: a product is computed when all have issued it, at a moment that the options choose (async_work.h), and a warp
// whose wait needs it stops until then. Operands in shared memory and in registers are read at that moment. What an
// accumulator holds from its issue on is poison unless products complete at once.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "exec/warpgroup_product.h"
#include "machine/async_work.h"

namespace stratum::emulator {

class Warpgroup {
 public:
  using Compute = void (*)(const WarpgroupProduct&);

  // The group of the four warps from `first` on.
  explicit Warpgroup(Warp* first) : warps_(first) {}

  // A new block.
  void reset();

  // The warp comes to a fence, product, commit or wait, which is its step. Trap if it isn't what the other warps came
  // to.
  void fence(Warp& warp);
  void issue(Warp& warp, const WarpgroupProduct& product, Compute compute, uint64_t a, uint64_t b);
  void commit(Warp& warp);
  // Stops the warp, if others have still to issue its products, until all its groups but the latest `but` can complete.
  void wait(Warp& warp, uint32_t but);
  // The warp is about to go on: if wait() has stopped it, those groups complete.
  void resume(Warp& warp);

  // The warp has ended. Trap if it has products in flight, or if others came to something that it didn't.
  void leave(const Warp& warp);

  // What a warp waits for that wait() has stopped; "" for others.
  std::string describe(const Warp& warp) const;

 private:
  struct Event {  // something that all must come to
    const Step* step;
    uint64_t a, b;  // descriptors
    uint32_t came;  // a bit a warp
  };
  struct Product {
    WarpgroupProduct operands;
    Compute compute;
    const Step* step;
    uint64_t group;
    uint32_t came = 0, waited = 0;  // a bit a warp
    bool begun = false;
    AsyncWork::Ticket ticket = 0;
    std::array<uint32_t, kWarpsOfGroup> clocks = {};  // of what the warps' agents read
    std::array<std::vector<uint32_t>, kWarpsOfGroup> before = {};
  };
  struct Member {
    uint64_t events = 0;  // that it came to,
    uint64_t groups = 0;  // and those of them that are commits
    uint64_t needs = 0;   // groups that must complete before it goes on; 0: it doesn't wait
    bool fenced = false;
  };

  uint32_t place(const Warp& warp) const { return warp.index % kWarpsOfGroup; }
  void come(const Warp& warp, uint64_t a = 0, uint64_t b = 0);
  Product& product_of(const Warp& warp, const WarpgroupProduct& operands, Compute compute);
  void keep(const Warp& warp, Product& product);
  void begin(Warp& warp, Product& product);
  bool can_finish(uint64_t groups) const;
  void finish(Warp& warp, uint64_t groups);

  Warp* warps_;
  std::deque<Event> events_;  // those that some warps have not come to yet
  uint64_t first_event_ = 0;  // the number of the first of them
  std::deque<Product> products_;
  std::array<Member, kWarpsOfGroup> members_ = {};
};

}  // namespace stratum::emulator
