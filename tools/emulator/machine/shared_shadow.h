// What is known of each cell of a block's shared memory: who wrote it, who has read it since, and whether its value is
// one that somebody wrote. Finds accesses that nothing orders.
//
// A cell has 2 bytes, a 16-bit element: with more, neighbours that are no race would be told as one.
//
// Threads access memory through the generic proxy, wgmma and tensor copies through the asynchronous one. What a thread
// wrote needs a fence.proxy.async before the other proxy may touch it; the wait for an asynchronous access is fence
// enough for what threads do afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/order.h"

namespace stratum::emulator {

inline constexpr uint32_t kCellBytes = 2;
inline constexpr uint8_t kAllBytes = (1u << kCellBytes) - 1;

// Who does something where.
struct Actor {
  uint32_t thread;  // of the block
  int line;         // of the PTX
};

class SharedShadow {
 public:
  SharedShadow(const Order& order, uint32_t bytes);

  void reset();

  // A thread reads. Returns a bit for each of the bytes whose value nobody wrote. Trap for a race.
  uint32_t read(Actor actor, uint32_t offset, uint32_t bytes);
  // A thread writes; bits in `undefined` say which bytes have no value. Trap for a race.
  void write(Actor actor, uint32_t offset, uint32_t bytes, uint32_t undefined);
  // A cp.async of the thread begins to write, and has written. Between the two nobody may touch the bytes.
  void begin_copy(Actor actor, uint32_t offset, uint32_t bytes);
  void end_copy(Actor actor, uint32_t offset, uint32_t bytes, uint32_t undefined);

  // An agent of the thread's warp begins to read, at the clock that Order::begin_async gave. Returns as `read`.
  uint32_t read_async(Actor actor, Agent agent, uint32_t clock, uint32_t offset, uint32_t bytes);
  // A tensor copy of the thread begins to write, which ends with that phase of the mbarrier; and has written.
  void begin_tensor_copy(Actor actor, uint32_t mbarrier, uint32_t phase, uint32_t offset, uint32_t bytes);
  void end_tensor_copy(uint32_t offset, uint32_t bytes, uint32_t undefined);

 private:
  struct Write {
    uint32_t clock = 0;  // 0: nobody has written
    int line = 0;
    uint16_t who = 0;  // as in Order
    bool copying = false;
    uint8_t undefined = kAllBytes;  // a bit a byte
  };
  struct Read {  // the last by a warp or an agent
    uint32_t clock = 0;
    int line = 0;
    uint32_t who = 0;  // kSeveral if lanes of the warp have read it
  };
  static constexpr uint32_t kSeveral = 0xffffffffu;

  struct Reader {
    uint32_t who;  // a thread of the warp, or the agent
    std::vector<Read> reads;
    std::vector<uint32_t> newest;  // clock of a stretch's cells: what comes after it comes after all of them
    void note(uint32_t offset, uint32_t bytes, uint32_t clock);
  };
  static constexpr uint32_t kStretch = 32;  // cells
  Reader make_reader(uint32_t who) const;
  Reader& reader_of(uint32_t who);
  // Trap unless the last write happens before what the actor does now,
  void check_written(const char* what, Actor actor, uint32_t cell) const;
  // and, if a thread wrote, a proxy fence is between the two.
  void check_proxy(const char* what, Actor actor, uint32_t cell) const;
  // The same for all cells of an access; neighbours mostly have the same last write, which is looked at once.
  void check_all_written(const char* what, Actor actor, uint32_t offset, uint32_t bytes, bool async) const;
  // Trap unless the last write and all reads happen before what the actor does now.
  void check_write(Actor actor, uint32_t offset, uint32_t bytes, bool async = false) const;
  [[noreturn]] void race(const char* what, Actor actor, uint32_t cell, const char* earlier, uint32_t who, int line,
                         const char* why = "nothing orders the two") const;

  const Order& order_;
  std::vector<Write> writes_;    // a cell
  std::vector<Reader> readers_;  // warps first; agents join them when they first read
};

}  // namespace stratum::emulator
