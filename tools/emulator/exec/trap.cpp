#include "exec/trap.h"

#include <fmt/format.h>

#include "machine/options.h"

namespace stratum::emulator {
namespace {

const char* name_of(Space space) {
  return space == Space::Global ? "global" : space == Space::Shared ? "shared" : "parameter";
}

}  // namespace

void trap_access(const Warp& warp, Space space, uint64_t address, uint64_t bytes, uint64_t align, uint32_t lane) {
  const std::string what = fmt::format("{} bytes at {} address {:#x}, lane {}", bytes, name_of(space), address, lane);
  if (address % align) throw Trap(fmt::format("{}: not a multiple of {}", what, align));
  if (space == Space::Global) throw Trap(what + ": no memory is there");
  const uint64_t first = space == Space::Shared ? kSharedBase : 0;
  const uint64_t size = space == Space::Shared ? warp.shared_bytes : warp.parameter_bytes;
  throw Trap(fmt::format("{}: outside {:#x} to {:#x}", what, first, first + size));
}

void ask_valid(const Warp& warp, uint64_t address, uint64_t bytes, bool write, uint32_t lane) {
  std::string why;
  if (!warp.options->valid(address, bytes, write, &why)) {
    throw Trap(fmt::format("{} {} bytes at global address {:#x}, lane {}: {}", write ? "write of" : "read of", bytes,
                           address, lane, why));
  }
}

void trap_not_converged(const Warp&, uint32_t lanes, uint32_t expected) {
  throw Trap(fmt::format("lanes {:#010x} execute it, expected {:#010x}", lanes, expected));
}

}  // namespace stratum::emulator
