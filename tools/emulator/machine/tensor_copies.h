// Copies between an array in global memory, which a tensor map describes, and a box of it in shared memory.
//
// The box lies densely, its innermost axis first; a swizzle then exchanges the 16-byte chunks of a shared address: with
// 128 bytes its bits 4-6 become their xor with bits 7-9, with 64 bits 4-5 with 7-8, with 32 bit 4 with bit 7. Of
// elements beyond the array's ends a load fills zeros, and a store writes nothing.
#pragma once

#include <cstdint>

#include "exec/warp.h"
#include "machine/tensor_map.h"

namespace stratum::emulator {

struct TensorCopy {
  TensorMap map;
  int32_t at[kMaxRank];  // the coordinates of the box's first element
  uint64_t shared;       // its address
};

// The map of that many axes, or kAnyRank, at a generic address, which must lie in the kernel's parameters. Trap if
// there is none, and for what the emulator doesn't do.
inline constexpr int kAnyRank = 0;
TensorMap find_tensor_map(const Warp& warp, uint64_t address, int rank);

// A lane of the warp begins to load; the mbarrier at that shared address counts the box's bytes as they land, all at
// once. Until then the box is poisoned. Trap for a box that isn't aligned or leaves shared memory.
void begin_tensor_load(Warp& warp, uint32_t lane, const TensorCopy& copy, uint64_t mbarrier);

// A lane begins to store, as a part of its next bulk group.
void begin_tensor_store(Warp& warp, uint32_t lane, const TensorCopy& copy);

}  // namespace stratum::emulator
