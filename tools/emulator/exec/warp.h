// A warp: its registers, the lanes that run, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/program.h"

namespace stratum::emulator {

class AsyncCopies;
class AsyncWork;
class Barriers;
class BulkStores;
class Mbarriers;
class RegisterPool;
class Warpgroup;
class Watch;
struct Options;

// Lanes that wait while others run: they go on at `pc` when the path above them has come to its own `reconverge`.
struct Path {
  uint32_t pc, lanes, reconverge;
};

struct Warp {
  std::byte* registers = nullptr;
  std::byte* shared = nullptr;
  const std::byte* parameters = nullptr;
  uint32_t shared_bytes = 0, parameter_bytes = 0;
  const Options* options = nullptr;

  uint32_t index = 0;          // in the block
  uint32_t threads = 0;        // lanes that the block has
  uint32_t live = 0;           // those that have not returned
  uint32_t active = 0;         // those that run now
  uint32_t pc = 0;             // their next step
  uint32_t reconverge = kEnd;  // where they wait for the others
  const Step* step = nullptr;  // the last step that ran
  std::vector<Path> suspended;
  bool waiting = false;  // at a barrier, for an mbarrier or for registers
  uint64_t seed = 0;     // of random()

  Watch* watch = nullptr;  // null: nobody looks
  AsyncCopies* copies = nullptr;
  Barriers* barriers = nullptr;
  // Of the block, and of the warp the tensor stores.
  AsyncWork* work = nullptr;
  Mbarriers* mbarriers = nullptr;
  BulkStores* stores = nullptr;
  RegisterPool* pool = nullptr;
  Warpgroup* warpgroup = nullptr;  // null: the block has not all four warps of it

  // The next of a sequence that `seed` began (splitmix64).
  uint32_t random() {
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<uint32_t>(z >> 32);
  }
};

}  // namespace stratum::emulator
