// How a launch is run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace stratum::emulator {

// When the bytes of a cp.async arrive: with the instruction, or not before its thread waits for them. Until then they
// are poisoned.
enum class Arrival { AtIssue, AtWait };

struct Options {
  Arrival copies = Arrival::AtWait;
  unsigned threads = 0;  // host threads that share the blocks; 0: one a core
  // Asked about every access to global memory if there is one: whether it may be read or written, and if not, why.
  // Called from several threads at once.
  std::function<bool(uint64_t address, uint64_t bytes, bool write, std::string* why)> valid = {};
};

}  // namespace stratum::emulator
