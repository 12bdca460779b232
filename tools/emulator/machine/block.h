// One block: its warps, its shared memory, its barriers. One host thread runs it, its warps in turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/warp.h"
#include "machine/async_copies.h"
#include "machine/async_work.h"
#include "machine/barriers.h"
#include "machine/bulk_stores.h"
#include "machine/mbarriers.h"
#include "machine/register_pool.h"
#include "machine/run.h"
#include "machine/warpgroup.h"
#include "machine/watch.h"

namespace stratum::emulator {

class Block {
 public:
  // Makes room for any block of the launch; both must outlive it.
  Block(const Program& program, const Launch& launch);

  // Runs the block of that number, counted along x first. Throws Fault.
  void run(uint64_t number);

  // The same in turns, with other blocks in between: begin, then advance until it is false. Throw Fault.
  void begin(uint64_t number);
  bool advance();

  // What the block wrote to global memory; nothing without checks.
  const Accesses* accesses() const { return watch_ ? &watch_->accesses() : nullptr; }

  // What was counted so far; null without checks.
  const Counters* counters() const { return watch_ ? &watch_->counters() : nullptr; }

 private:
  void place_constants();
  bool take_turns();
  bool run_random_warp();
  // Nobody can go on before something that is in flight ends. Deadlock if there is nothing.
  void finish_work();
  void end();
  void run_warp(Warp& warp, uint64_t most);
  template <bool kWatched>
  void step_warp(Warp& warp, uint64_t& left);
  [[noreturn]] void fault(const Warp& warp, Check check, const std::string& text) const;
  std::string waited_for(const Warp& warp) const;
  [[noreturn]] void deadlock() const;
  void fill_specials(Warp& warp);

  struct Free {
    void operator()(std::byte* memory) const;
  };
  const Program& program_;
  const Launch& launch_;
  uint32_t threads_;
  uint32_t index_[3] = {};
  std::unique_ptr<std::byte[], Free> registers_;
  std::vector<std::byte> shared_;
  std::vector<Warp> warps_;
  std::vector<AsyncCopies> copies_;
  std::vector<Warpgroup> warpgroups_;  // those that are whole
  Barriers barriers_;
  AsyncWork work_;
  Mbarriers mbarriers_;
  std::vector<BulkStores> stores_;
  RegisterPool pool_;
  std::unique_ptr<Watch> watch_;  // null without checks
  uint64_t executed_ = 0;         // instructions of the block that runs
  Warp chance_;                   // for its random numbers only
};

}  // namespace stratum::emulator
