// A warp: its registers, the lanes that run, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/program.h"

namespace stratum::emulator {

class AsyncCopies;
class Barriers;
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
  bool waiting = false;  // at a barrier

  AsyncCopies* copies = nullptr;
  Barriers* barriers = nullptr;
};

}  // namespace stratum::emulator
