// The sixteen barriers of a block. Warps arrive as a whole.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/warp.h"
#include "machine/order.h"

namespace stratum::emulator {

inline constexpr uint32_t kEveryThread = 0;  // of the block, less the warps that have ended

// What the threads that come to a barrier get to know of the predicates that they bring: nothing, whether one holds,
// whether all do, or how many.
enum class Reduction { None, Or, And, Count };

class Barriers {
 public:
  // For a block whose warps all live; `order`, unless it is null, learns what the barriers put in order.
  void reset(std::vector<Warp>& warps, Order* order);

  // The warp arrives at a barrier for `threads` threads; if it waits, it stops (Warp::waiting) until all have arrived.
  // Trap for a barrier that doesn't exist, for a count that differs from that of earlier arrivals, and if the warp has
  // come before and the barrier has not completed since: it would stand in for a warp that is still to come. With a
  // reduction, which must be the same for all, `holds` has a bit for each lane whose predicate is true, and the result
  // is in the first operand of the step when the warp goes on.
  void arrive(Warp& warp, uint32_t barrier, uint32_t threads, bool waits, Reduction reduction = Reduction::None,
              uint32_t holds = 0);

  // The warp has ended: barriers for every thread wait for it no longer, and come after all that it did. Trap if it was
  // the last and some have arrived at a barrier for more.
  void leave(const Warp& warp);

  // What the warp, which waits, waits for.
  std::string describe(const Warp& warp) const;

 private:
  struct Barrier {
    uint32_t threads = kEveryThread;  // that it is for
    uint32_t arrived = 0;             // threads
    uint32_t came = 0, waiting = 0;   // a bit a warp
    Reduction reduction = Reduction::None;
    uint32_t voters = 0, holds = 0;  // threads that brought a predicate, and a true one
  };
  uint32_t expected(const Barrier& barrier) const;
  void complete(uint32_t number);
  static void write_result(const Barrier& barrier, Warp& warp);

  std::vector<Warp>* warps_ = nullptr;
  Order* order_ = nullptr;
  uint32_t live_ = 0;  // warps
  std::array<Barrier, kBarriers> barriers_;
};

}  // namespace stratum::emulator
