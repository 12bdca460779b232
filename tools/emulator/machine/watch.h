// What is looked at while a block runs with checks on: definedness of registers, order of accesses to shared memory,
// the map of global memory, counters. Handlers tell it of memory accesses; the block, of everything else.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/space.h"
#include "exec/warp.h"
#include "machine/block_accesses.h"
#include "machine/counters.h"
#include "machine/definedness.h"
#include "machine/memory_map.h"
#include "machine/order.h"
#include "machine/shared_shadow.h"

namespace stratum::emulator {

class Watch {
 public:
  Watch(const Program& program, const MemoryMap* memory, uint32_t warps, uint32_t shared_bytes);

  // A new block begins.
  void reset();

  // Around a step of a warp: `active` lanes come to it, `lanes` of them execute it.
  void before(const Warp& warp, const Step& step, uint32_t active, uint32_t lanes);
  void after(const Warp& warp, const Step& step, uint32_t lanes);

  // The step's lanes access `bytes` at addresses that are aligned, and in bounds if they are shared.
  void access(const Warp& warp, Space space, bool write, const uint64_t* address, uint32_t bytes, uint32_t lanes);

  // A lane begins a copy to shared memory; returns a bit for each of the bytes read that nobody wrote.
  uint32_t begin_copy(const Warp& warp, uint32_t lane, uint64_t to, uint32_t bytes, uint64_t from, uint32_t from_bytes);
  void end_copy(const Warp& warp, uint32_t lane, uint64_t to, uint32_t bytes, uint32_t undefined);
  // Counts the copies of a warp's lanes, as accesses of both memories.
  void count_copies(const Warp& warp, const uint64_t* to, const uint64_t* from, const uint32_t* from_bytes,
                    uint32_t bytes, uint32_t lanes);

  Order& order() { return order_; }
  // To global memory, by the block so far.
  const Accesses& accesses() const { return accesses_; }
  const Counters& counters() const { return counters_; }

 private:
  uint32_t global_read(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes);
  void global_write(uint32_t lane, uint64_t address, uint32_t bytes, uint32_t undefined);
  const Region& region(const char* what, uint32_t lane, uint64_t address, uint32_t bytes);

  const Program& program_;
  const MemoryMap* memory_;  // null: any global memory may be used
  Order order_;
  SharedShadow shared_;
  std::vector<Definedness> registers_;  // of each warp
  MissingBytes stored_{}, loaded_{};    // of the step that runs
  const Region* latest_ = nullptr;      // that was used
  Accesses accesses_;
  Counters counters_;
  uint64_t began_ = 0;  // the step that runs, by the host's clock
};

}  // namespace stratum::emulator
