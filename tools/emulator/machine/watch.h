// What is looked at while a block runs with checks on: definedness of registers, order of accesses to shared memory,
// the map of global memory, counters. Handlers tell it of memory accesses; the block, of everything else.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/space.h"
#include "exec/warp.h"
#include "exec/warpgroup_product.h"
#include "machine/block_accesses.h"
#include "machine/counters.h"
#include "machine/definedness.h"
#include "machine/memory_map.h"
#include "machine/order.h"
#include "machine/registers_in_flight.h"
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

  // An agent of the warp begins work with the step that runs; returns the clock by which its reads are known until the
  // warp has waited for all up to it.
  uint32_t begin_async(const Warp& warp, Agent agent) { return order_.begin_async(warp.index, agent); }
  void end_async(const Warp& warp, Agent agent, uint32_t clock) { order_.end_async(warp.index, agent, clock); }
  // That work, begun by a lane, reads up to 32 bytes of shared memory at some time before its end; returns a bit for
  // each of the bytes whose value nobody wrote.
  uint32_t read_async(const Warp& warp, uint32_t lane, Agent agent, uint32_t clock, uint64_t address, uint32_t bytes);

  // A lane begins a tensor copy that ends with that phase, from 1, of the block's mbarrier of that number: it will
  // write up to 32 bytes of shared memory; and has written them.
  void begin_tensor_copy(const Warp& warp, uint32_t lane, uint32_t mbarrier, uint32_t phase, uint64_t to,
                         uint32_t bytes);
  void end_tensor_copy(uint64_t to, uint32_t bytes, uint32_t undefined);
  // A lane's tensor copy reads or writes up to 32 bytes of global memory; the former returns a bit for each of those
  // that nobody wrote.
  uint32_t tensor_read(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes);
  void tensor_write(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes, uint32_t undefined);
  // A product of a warpgroup, from a warp's issue to its wait; between the two the warp's agent reads. Trap for
  // operands that nobody wrote, races, and registers in flight.
  uint32_t begin_product(const Warp& warp, const WarpgroupProduct& product);
  void end_product(const Warp& warp, const Step& product, uint32_t clock);
  void fence_registers(const Warp& warp) {
    if (!in_flight_.empty()) in_flight_[warp.index].fence();
  }

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
  std::vector<Definedness> registers_;        // of each warp
  std::vector<RegistersInFlight> in_flight_;  // the same; none if the kernel has no wgmma
  MissingBytes stored_{}, loaded_{};          // of the step that runs
  const Region* latest_ = nullptr;            // that was used
  Accesses accesses_;
  Counters counters_;
  uint64_t began_ = 0;  // the step that runs, by the host's clock
};

}  // namespace stratum::emulator
