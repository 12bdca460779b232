// cp.async: 16-byte copies from global to shared memory that run beside the warp, grouped by commit.
#pragma once

#include "device/element.h"

namespace stratum {

// Copies 16 bytes; with `valid` false nothing is read and the destination is filled with zeros. The global address
// must then still be one that the caller may form.
STRATUM_DEVICE void cp_async_16(u32 destination, const void* source, bool valid) {
  const u32 bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(bytes)
               : "memory");
}

STRATUM_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's latest groups are unfinished.
template <int kPending>
STRATUM_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace stratum
