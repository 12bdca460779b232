// What goes wrong in a step. The block that runs the warp adds kernel, line and place and makes it a Fault.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "exec/space.h"
#include "exec/warp.h"
#include "machine/check.h"

namespace stratum::emulator {

struct Trap : std::runtime_error {
  Trap(Check check, const std::string& text) : std::runtime_error(text), check(check) {}
  Check check;
};

// Says what is wrong with an access of `bytes` at `address`, which must be a multiple of `align`.
[[noreturn]] void trap_access(const Warp& warp, Space space, uint64_t address, uint64_t bytes, uint64_t align,
                              uint32_t lane);

// Tells the warp's watch of an access (Watch::access).
void tell_watch(const Warp& warp, Space space, bool write, const uint64_t* address, uint32_t bytes, uint32_t lanes);

// For an instruction that the whole warp must execute together.
[[noreturn]] void trap_not_converged(const Warp& warp, uint32_t lanes, uint32_t expected);

}  // namespace stratum::emulator
