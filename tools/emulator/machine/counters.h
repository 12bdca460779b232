// What a kernel did, instruction by instruction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/program.h"

namespace stratum::emulator {

// Of one instruction of the PTX, over all warps that ran.
struct StepCounts {
  uint64_t executed = 0;          // by warps, for one lane at least
  uint64_t lanes = 0;             // by threads
  uint64_t bytes = 0;             // that memory instructions asked for
  uint64_t sectors = 0;           // 32 bytes of global memory, those that a warp's lanes share counted once
  uint64_t wavefronts = 0;        // shared memory: passes over its 32 banks,
  uint64_t least_wavefronts = 0;  // and what they would be without conflicts
  uint64_t ticks = 0;             // of the host's clock that the emulator spent on it, checks included
};

struct Counters {
  std::vector<StepCounts> steps;                // as in Program::steps
  std::vector<std::vector<uint64_t>> executed;  // [warp of the block][step]
  uint64_t blocks = 0;

  void add(const Counters& other);
};

// Passes over the banks that the lanes' accesses to shared memory take. The hardware serves 128 bytes a pass: all lanes
// at 4 bytes each, half of them at 8, a quarter at 16. Lanes that read the same word share it.
uint32_t wavefronts(const uint32_t* offset, uint32_t bytes, uint32_t lanes);
uint32_t least_wavefronts(uint32_t bytes, uint32_t lanes);

// Sectors that the lanes' accesses to global memory touch.
uint32_t sectors(const uint64_t* address, uint32_t bytes, uint32_t lanes);

}  // namespace stratum::emulator
