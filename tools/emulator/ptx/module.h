// A PTX module as it is written: entries, declarations, instructions with their operands. Nothing is decoded yet.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace stratum::emulator::ptx {

// Something in a module that can't be read; the text has the line.
struct ParseError : std::runtime_error {
  ParseError(int line, const std::string& text)
      : std::runtime_error("PTX line " + std::to_string(line) + ": " + text), line(line) {}
  int line;
};

enum class Kind { Register, Immediate, Symbol, Special, Label, Vector, Address };

// An operand. Names of registers are unique in an entry, whatever scope they were declared in.
struct Operand {
  Kind kind;
  std::string name;       // register, symbol, special register, label; of an address its base, "" if absolute
  uint64_t bits = 0;      // of an immediate
  bool is_float = false;  // an immediate that is written as bits of a float
  int64_t offset = 0;     // of an address
  bool negated = false;   // a predicate with !
  std::vector<Operand> elements = {};  // of a vector; of `a|b` both; of an address the coordinates
};

struct Instruction {
  std::string opcode;  // with all its dotted parts: ld.global.v4.u32
  std::string guard;   // predicate register, "" for none
  bool guard_negated = false;
  std::vector<Operand> operands = {};
  int line = 0;
};

// A variable of the module or of an entry: .shared, .global or .const.
struct Variable {
  std::string space;
  std::string name;
  uint64_t align = 1, bytes = 0;  // 0 bytes: dynamic shared memory
};

struct Parameter {
  std::string name;
  uint64_t offset = 0, bytes = 0;
};

struct Entry {
  std::string name;
  std::vector<Parameter> parameters;
  uint64_t parameter_bytes = 0;
  std::map<std::string, std::string> registers;  // unique name → type: pred, b16, b32, f32, b64, …
  std::vector<Variable> variables;
  std::vector<Instruction> instructions;
  std::map<std::string, size_t> labels;  // → index of the instruction that follows
};

struct Module {
  std::string target;
  std::vector<Variable> variables;
  std::vector<Entry> entries;
};

}  // namespace stratum::emulator::ptx
