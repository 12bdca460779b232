// Gives the registers, constants and special registers of an entry their places in a warp's register file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "exec/program.h"
#include "ptx/module.h"

namespace stratum::emulator {

class RegisterFile {
 public:
  explicit RegisterFile(const ptx::Entry& entry);

  // What Form::operands calls a register of the entry: 'p', 'h', 'w' or 'q'.
  char letter_of(const std::string& name) const;

  // The places, the same for every use.
  uint32_t of_register(const std::string& name);
  uint32_t of_constant(uint64_t bits, bool wide);
  uint32_t of_special(Special special);

  // Adds to the program what its register file holds and how large it is.
  void describe(Program& program) const;

 private:
  uint32_t take_row(bool wide);

  const ptx::Entry& entry_;
  uint32_t predicate_bytes_ = 8;  // kTrue and kFalse
  uint32_t rows_begin_;           // predicates come before them
  uint32_t bytes_;                // with all rows so far
  std::map<std::string, uint32_t> registers_;
  std::map<std::pair<uint64_t, bool>, uint32_t> constants_;
  std::map<Special, uint32_t> specials_;
};

}  // namespace stratum::emulator
