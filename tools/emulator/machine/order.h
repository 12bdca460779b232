// Which of a block's accesses happen before which: a vector clock a warp.
//
// A warp's own clock ticks whenever its lanes are put in order (bar.warp.sync), at a proxy fence, and whenever it
// arrives at a barrier. An access is known by who made it and by the clock that he showed. Besides threads there are
// those that work for them: what a warp's wgmma and tensor stores read is counted by the warp's agents, whose clocks a
// warp learns when it waits for them, and what tensor copies write, by the phases of their mbarrier.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/lane_masks.h"

namespace stratum::emulator {

inline constexpr uint32_t kMostWarps = 32;  // of a block
inline constexpr uint32_t kBarriers = 16;
inline constexpr uint32_t kMostMbarriers = 64;  // of a block

// Who works for a warp while it goes on.
enum class Agent : uint8_t { Wgmma, Bulk };

// Who accesses memory: a thread of the block, by its number, or one of these.
inline constexpr uint32_t kFirstAgent = kMostWarps * kLanes;
inline uint32_t agent_of(uint32_t warp, Agent agent) {
  return kFirstAgent + (static_cast<uint32_t>(agent) + 1) * kMostWarps + warp;
}
inline constexpr uint32_t kFirstMbarrier = kFirstAgent + 3 * kMostWarps;

class Order {
 public:
  explicit Order(uint32_t warps) : warps_(warps), clocks_(warps), mbarriers_(kMostMbarriers) { reset(); }

  // A new block: nothing has happened.
  void reset();

  uint32_t warps() const { return warps_; }
  uint32_t now(uint32_t warp) const { return clocks_[warp].seen[warp]; }

  // Whether what somebody did at `clock` happens before what another thread, of `warp`, does now.
  bool ordered(uint32_t who, uint32_t clock, uint32_t warp) const {
    const uint32_t by = component(who);
    return by == warp ? clock < synced_[warp] : clock <= clocks_[warp].seen[by];
  }
  // Whether a proxy fence comes after what a thread did at `clock`, and before what the warp does now.
  bool fenced(uint32_t thread, uint32_t clock, uint32_t warp) const {
    return clock <= clocks_[warp].fenced[component(thread)];
  }

  void sync_lanes(uint32_t warp) { synced_[warp] = ++clocks_[warp].seen[warp]; }
  // What the warp did, and all that it knows to have happened, is done for the asynchronous proxy too.
  void fence_proxy(uint32_t warp);
  void arrive(uint32_t warp, uint32_t barrier);
  // The warp has ended.
  void end(uint32_t warp) { join(ended_, clocks_[warp]); }
  // All have arrived; the warps in the mask go on. A barrier for every thread completes after others have ended.
  void complete(uint32_t barrier, uint32_t waiting, bool every);

  // The clock of what the agent begins now for the warp.
  uint32_t begin_async(uint32_t warp, Agent agent) { return ++begun_[component(agent_of(warp, agent))]; }
  // The warp has waited for all that the agent began up to that clock.
  void end_async(uint32_t warp, Agent agent, uint32_t clock);

  void arrive_mbarrier(uint32_t warp, uint32_t mbarrier);
  // Its phase of that number, from 1, is complete.
  void complete_mbarrier(uint32_t mbarrier, uint32_t phase);
  // The warp has seen that the last phase is complete.
  void wait_mbarrier(uint32_t warp, uint32_t mbarrier) { join(clocks_[warp], mbarriers_[mbarrier].complete); }

 private:
  static constexpr uint32_t kComponents = 3 * kMostWarps + kMostMbarriers;
  static uint32_t component(uint32_t who) { return who < kFirstAgent ? who / kLanes : who - kFirstAgent; }

  struct Clock {
    std::array<uint32_t, kComponents> seen{};   // how far it has seen everybody
    std::array<uint32_t, kMostWarps> fenced{};  // and what each warp did, with a proxy fence behind it
  };
  struct Mbarrier {
    Clock arriving, complete;  // of the phase that goes on, and of the last one
  };
  static void join(Clock& into, const Clock& from);

  uint32_t warps_;
  std::vector<Clock> clocks_;                  // of each warp
  std::array<uint32_t, kMostWarps> synced_{};  // of each warp: what its lanes did before is in order
  std::array<uint32_t, kComponents> begun_{};  // by agents
  std::array<Clock, kBarriers> barriers_;      // what those that have arrived had seen,
  std::vector<Mbarrier> mbarriers_;            // at mbarriers too,
  Clock ended_;                                // and those that have ended
};

}  // namespace stratum::emulator
