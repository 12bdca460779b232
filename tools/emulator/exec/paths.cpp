#include "exec/paths.h"

namespace stratum::emulator {

void branch(Warp& warp, uint32_t taken, uint32_t target, uint32_t next, uint32_t reconverge) {
  const uint32_t rest = warp.active & ~taken;
  if (!taken || !rest) {
    warp.pc = taken ? target : next;
    return;
  }
  // The lanes together, from where they meet. If the whole path ends there, what is under it has that entry already.
  if (reconverge != warp.reconverge) warp.suspended.push_back({reconverge, warp.active, warp.reconverge});
  warp.reconverge = reconverge;
  if (target == reconverge) {
    warp.active = rest, warp.pc = next;
  } else {
    if (next != reconverge) warp.suspended.push_back({next, rest, reconverge});
    warp.active = taken, warp.pc = target;
  }
}

void leave(Warp& warp, uint32_t lanes) {
  warp.live &= ~lanes;
  warp.active &= ~lanes;
  if (!warp.active) resume(warp);
}

void resume(Warp& warp) {
  warp.active = 0;
  while (!warp.suspended.empty() && (!warp.active || warp.pc == warp.reconverge)) {
    const Path path = warp.suspended.back();
    warp.suspended.pop_back();
    warp.active = path.lanes & warp.live, warp.pc = path.pc, warp.reconverge = path.reconverge;
  }
}

}  // namespace stratum::emulator
