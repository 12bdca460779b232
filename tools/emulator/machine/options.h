// How a launch is run.
#pragma once

#include <cstdint>

namespace stratum::emulator {

class MemoryMap;
struct Counters;

// When the bytes of a cp.async arrive: with the instruction, not before its thread waits for them, or the one or the
// other by chance. Until then they are poisoned. Other asynchronous work (machine/async_work.h) ends with the
// instruction, not before somebody waits for it, or at any moment by chance.
enum class Arrival { AtIssue, AtWait, Random };

// How an MMA sums: in plain float32, or as Hopper's tensor cores do, to the bit.
enum class Mma { Plain, Exact };

struct Options {
  // Checks cost about ten times the run without them: races, values that nobody wrote, global memory outside `memory`.
  bool checks = false;
  Arrival copies = Arrival::AtWait;
  Mma mma = Mma::Exact;
  // 0: warps take turns in order, each until it waits. Else they are chosen by chance, each for a random while.
  uint64_t seed = 0;
  uint64_t limit = 0;    // instructions that a block's warps may execute; 0: no limit
  unsigned threads = 0;  // host threads that share the blocks; 0: one a core
  // All blocks run in turns from the start to the end of the launch, so that they can wait for each other.
  bool together = false;
  const MemoryMap* memory = nullptr;  // with checks; null: any global memory may be used
  Counters* counters = nullptr;       // with checks; are added to
};

}  // namespace stratum::emulator
