// A product of a warpgroup, ready to be computed: D = A B or D += A B, A 64 x 16, B 16 x N.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/matrix_descriptor.h"
#include "machine/options.h"

namespace stratum::emulator {

struct Step;
struct Warp;

inline constexpr uint32_t kWarpsOfGroup = 4, kRowsOfGroup = 64;

struct WarpgroupProduct {
  std::byte* registers[kWarpsOfGroup];  // register files
  const std::byte* shared;              // the byte at kSharedBase
  const uint32_t* accumulators;         // places in a register file, N / 2 of them
  uint32_t columns;                     // N
  const uint32_t* a_registers;          // four places in a register file; null: A is in shared memory
  MatrixDescriptor a, b;                // whose chunks are all inside shared memory
  bool negative;                        // -A B instead
  bool adds;
  const uint32_t* before[kWarpsOfGroup];  // what D was, row by row of registers; null: what it is
  Mma mma;
};

// A warp issues a product that is computed later. The step's operands: D, A as a descriptor or four registers, the
// descriptor of B, whether D is added to; 1 or -1 for A and for B; whether A, if it has a descriptor, and B are
// MN-major.
void issue_product(Warp& warp, const Step& step, uint32_t lanes, bool a_in_registers,
                   void (*compute)(const WarpgroupProduct&));

}  // namespace stratum::emulator
