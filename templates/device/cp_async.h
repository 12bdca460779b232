// cp.async: 16-byte copies from global to shared memory that run beside the warp, grouped by commit.
#pragma once

#include "device/element.h"

namespace stratum {

// Copies 16 bytes; with `valid` false nothing is read, whatever the address, and the destination is filled with zeros.
STRATUM_DEVICE void cp_async_16(u32 destination, const void* source, bool valid) {
  const u32 bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(bytes) : "memory");
}

// The same for kBytes = 4 or 8, for rows of floats whose start is not 16-byte aligned.
template <int kBytes>
STRATUM_DEVICE void cp_async_small(u32 destination, const void* source, bool valid) {
  static_assert(kBytes == 4 || kBytes == 8, "cp.async.ca copies 4, 8 or 16 bytes");
  const u32 bytes = valid ? kBytes : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(destination), "l"(source), "n"(kBytes), "r"(bytes)
               : "memory");
}

STRATUM_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's latest groups are unfinished.
template <int kPending>
STRATUM_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace stratum
