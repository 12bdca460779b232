// What the blocks of a launch read and wrote in global memory. Nothing orders blocks: of a byte that one of them writes
// and another one touches nobody can tell what it will be.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "exec/program.h"
#include "machine/memory_map.h"

namespace stratum::emulator {

// Bytes that one instruction touched.
struct Range {
  uint64_t first, end;
  int line;
};

// Of one block, in any order. Reads of what no kernel may write are left out.
struct Accesses {
  std::vector<Range> read, written;
};

class BlockAccesses {
 public:
  // memory: names what is written; may be null.
  BlockAccesses(const Program& program, const MemoryMap* memory);

  // A block has ended. Fault if another one has written some of the bytes that it wrote. Called from several threads.
  void add(uint64_t block, const Accesses& accesses);
  // All blocks have ended. Fault if one of them read what another one wrote.
  void finish() const;

  // Of a kernel with atomic operations, by which blocks may take turns, nothing is said.

 private:
  struct Owned {
    uint64_t end, block;
    int line;
  };
  struct Read {
    Range range;
    uint64_t block;
  };
  [[noreturn]] void fault(const char* what, uint64_t address, uint64_t block, int line, const Owned& other) const;

  const Program& program_;
  const MemoryMap* memory_;
  bool blocks_may_meet_;
  std::mutex mutex_;
  std::map<uint64_t, Owned> owned_;  // by first byte
  std::vector<Read> read_;
};

}  // namespace stratum::emulator
