// What goes wrong in a step. The block that runs the warp adds kernel, line and place and makes it a Fault.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "exec/warp.h"

namespace stratum::emulator {

struct Trap : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Space { Global, Shared, Parameter };

// Says what is wrong with an access of `bytes` at `address`, which must be a multiple of `align`.
[[noreturn]] void trap_access(const Warp& warp, Space space, uint64_t address, uint64_t bytes, uint64_t align,
                              uint32_t lane);

// Asks Options::valid about an access to global memory; traps with its answer.
void ask_valid(const Warp& warp, uint64_t address, uint64_t bytes, bool write, uint32_t lane);

// For an instruction that the whole warp must execute together.
[[noreturn]] void trap_not_converged(const Warp& warp, uint32_t lanes, uint32_t expected);

}  // namespace stratum::emulator
