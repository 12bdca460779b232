// A decoded kernel: what a warp runs.
//
// Every operand of a step is a place in the register file of a warp, given in bytes. A 32-bit register is a row of 32
// words, one a lane; a 64-bit register a row of 32 doublewords; a 16-bit register uses the row of a 32-bit one. A
// predicate is one word with a bit a lane. Immediates, addresses of variables and special registers have rows of their
// own, so that a handler sees rows only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/lane_masks.h"

namespace stratum::emulator {

struct Step;
struct Warp;

// Executes a step for the given lanes, of which there is at least one.
using Handler = void (*)(Warp&, const Step&, uint32_t lanes);

inline constexpr uint32_t kMaxOperands = 14;  // of an m16n8k16 MMA

// Predicates that every register file begins with.
inline constexpr uint32_t kTrue = 0, kFalse = 4;

// Shared memory begins here, not at 0, so that an offset taken for an address is noticed.
inline constexpr uint64_t kSharedBase = 1024;

// The place after the last step, where lanes that return would meet.
inline constexpr uint32_t kEnd = 0xffffffffu;

// What becomes of values that nobody wrote: what a step does with its operands apart from computing with them.
enum class DataFlow : uint8_t {
  Use,
  Move,
  Select,
  Load,
  LoadMatrix,
  LoadMatrixTransposed,
  Store,
  StoreMatrix,
  StoreMatrixTransposed,
  Atomic
};

struct Step {
  Handler run = nullptr;
  uint32_t guard = kTrue;   // a predicate
  uint32_t guard_flip = 0;  // all ones under @!p
  uint32_t row[kMaxOperands] = {};
  int64_t offset[3] = {};    // of the step's addresses, in their order
  bool wide[3] = {};         // that address is in a 64-bit register
  uint32_t number = 0;       // an operand that must be an immediate
  int8_t modifiers[4] = {};  // several small ones, in their order
  // Registers that an asynchronous product adds to after the step. They are not among the operands below.
  std::vector<uint32_t> accumulators = {};
  uint32_t target = 0;      // of a branch: the step it leads to,
  uint32_t reconverge = 0;  // and where the lanes that do and don't take it meet again
  int line = 0;
  // For checks: the operands, results first, by their cells (Program::cell_of).
  DataFlow flow = DataFlow::Use;
  uint8_t writes = 0, operands = 0;
  uint8_t element_bytes = 0;  // of a load or store: the bytes of memory that one register stands for
  uint16_t guard_cell = 0;
  uint16_t cell[kMaxOperands] = {};
};

enum class Special { TidX, TidY, TidZ, NtidX, NtidY, NtidZ, CtaidX, CtaidY, CtaidZ, NctaidX, NctaidY, NctaidZ, Laneid };

struct Program {
  struct Constant {
    uint32_t row;
    uint64_t bits;
    bool wide;
  };
  struct SpecialRow {
    uint32_t row;
    Special special;
  };

  struct Parameter {
    uint32_t offset, bytes;
  };

  std::string name;
  std::vector<Step> steps;
  uint32_t register_bytes = 0;  // the register file of one warp
  std::vector<Constant> constants;
  std::vector<SpecialRow> specials;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;      // of all of them, as a launch lays them out
  uint32_t static_shared_bytes = 0;  // dynamic shared memory follows
  uint32_t predicate_bytes = 0;      // of the register file, before the first row
  uint32_t cells = 0;
  std::vector<std::string> names;  // of registers, by their cells

  // Registers are numbered for what is known of them: predicates, then rows (a 64-bit register takes two numbers).
  uint16_t cell_of(uint32_t offset) const {
    return static_cast<uint16_t>(
        offset < predicate_bytes ? offset / 4 : predicate_bytes / 4 + (offset - predicate_bytes) / (4 * kLanes));
  }
};

}  // namespace stratum::emulator
