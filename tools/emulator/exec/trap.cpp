#include "exec/trap.h"

#include <fmt/format.h>

#include "machine/watch.h"

namespace stratum::emulator {

void trap_access(const Warp& warp, Space space, uint64_t address, uint64_t bytes, uint64_t align, uint32_t lane) {
  const std::string what = fmt::format("{} bytes at {} address {:#x}, lane {}", bytes, name_of(space), address, lane);
  if (address % align) throw Trap(Check::Misaligned, fmt::format("{}: not a multiple of {}", what, align));
  if (space == Space::Global) throw Trap(Check::Bounds, what + ": no memory is there");
  const uint64_t first = space == Space::Shared ? kSharedBase : 0;
  const uint64_t size = space == Space::Shared ? warp.shared_bytes : warp.parameter_bytes;
  throw Trap(Check::Bounds, fmt::format("{}: outside {:#x} to {:#x}", what, first, first + size));
}

void tell_watch(const Warp& warp, Space space, bool write, const uint64_t* address, uint32_t bytes, uint32_t lanes) {
  warp.watch->access(warp, space, write, address, bytes, lanes);
}

void trap_not_converged(const Warp&, uint32_t lanes, uint32_t expected) {
  throw Trap(Check::Converged, fmt::format("lanes {:#010x} execute it, expected {:#010x}", lanes, expected));
}

}  // namespace stratum::emulator
