// Which registers of a warp hold values that somebody wrote, a bit a lane.
//
// A value that nobody wrote may be moved, selected away and stored, which makes the memory one that nobody wrote. Any
// other use of it is a fault.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/warp.h"

namespace stratum::emulator {

// The bytes of a memory access that have no value: a bit a byte, for each lane.
using MissingBytes = std::array<uint16_t, kLanes>;

class Definedness {
 public:
  explicit Definedness(const Program& program);

  // A new block: only constants and special registers hold something.
  void reset();

  // Before a step: Trap if one of `active` lanes has no value in the guard, or one of `lanes` that execute it has none
  // in an operand that the step uses.
  void check(const Warp& warp, const Step& step, uint32_t active, uint32_t lanes) const;
  // Bytes that a store is about to write without having values for them.
  MissingBytes stored(const Step& step, uint32_t lanes) const;
  // After a step; `loaded` are bytes that it read and nobody wrote.
  void update(const Warp& warp, const Step& step, uint32_t lanes, const MissingBytes& loaded);

  // A product is issued that adds to its accumulators or overwrites them: Trap if it adds to one without a value.
  void accumulate(const Step& product, bool adds);

  // Where the latest value came from that nobody wrote, for messages.
  void note_origin(int line, std::string what) { origin_line_ = line, origin_ = std::move(what); }

 private:
  void use(const Step& step, uint32_t operand, uint32_t lanes) const;
  [[noreturn]] void unwritten(const std::string& what, uint32_t missing) const;

  const Program& program_;
  std::vector<uint32_t> undefined_;  // by Step::cell
  int origin_line_ = 0;
  std::string origin_;
};

}  // namespace stratum::emulator
