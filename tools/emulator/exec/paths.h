// Divergence: a warp runs one path at a time, the others are suspended under it.
#pragma once

#include "exec/warp.h"

namespace stratum::emulator {

// Of the active lanes, `taken` go to step `target`, the others to `next`; all meet at `reconverge`.
void branch(Warp& warp, uint32_t taken, uint32_t target, uint32_t next, uint32_t reconverge);

// Those lanes have returned.
void leave(Warp& warp, uint32_t lanes);

// The active path has come to where it meets others, or no lane of it is left: goes on with the next path that has
// lanes. With none left nothing is active.
void resume(Warp& warp);

}  // namespace stratum::emulator
