// What the blocks of a launch wrote to global memory. Of a byte that two of them write nobody can tell whose it will be.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "exec/program.h"
#include "machine/memory_map.h"

namespace stratum::emulator {

// Bytes that one instruction wrote.
struct Written {
  uint64_t first, end;
  int line;
};

class BlockWrites {
 public:
  // memory: names what is written; may be null.
  BlockWrites(const Program& program, const MemoryMap* memory);

  // A block has ended that wrote these, in any order. Fault if another one has written some of them, unless the kernel
  // has atomic operations, by which blocks may take turns. Called from several threads.
  void add(uint64_t block, std::vector<Written> written);

 private:
  struct Owned {
    uint64_t end, block;
    int line;
  };
  [[noreturn]] void fault(uint64_t address, uint64_t block, int line, const Owned& other) const;

  const Program& program_;
  const MemoryMap* memory_;
  bool blocks_may_meet_;
  std::mutex mutex_;
  std::map<uint64_t, Owned> owned_;  // by first byte
};

}  // namespace stratum::emulator
