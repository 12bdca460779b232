#include "exec/register_file.h"

#include <algorithm>

namespace stratum::emulator {
namespace {

constexpr uint32_t kRowBytes = 4 * kLanes;

}  // namespace

RegisterFile::RegisterFile(const ptx::Entry& entry) : entry_(entry) {
  const auto predicates = std::count_if(entry.registers.begin(), entry.registers.end(),
                                        [](const auto& one) { return one.second == "pred"; });
  rows_begin_ = (predicate_bytes_ + 4 * static_cast<uint32_t>(predicates) + kRowBytes - 1) / kRowBytes * kRowBytes;
  bytes_ = rows_begin_;
}

char RegisterFile::letter_of(const std::string& name) const {
  const std::string& type = entry_.registers.at(name);
  if (type == "pred") return 'p';
  const std::string_view digits = std::string_view(type).substr(1);
  return digits == "16" ? 'h' : digits == "32" ? 'w' : digits == "64" ? 'q' : '?';
}

uint32_t RegisterFile::take_row(bool wide) {
  const uint32_t row = bytes_;
  bytes_ += wide ? 2 * kRowBytes : kRowBytes;
  return row;
}

uint32_t RegisterFile::of_register(const std::string& name) {
  const auto [place, is_new] = registers_.try_emplace(name, 0);
  if (is_new) {
    const char letter = letter_of(name);
    if (letter == 'p') {
      place->second = predicate_bytes_;
      predicate_bytes_ += 4;
    } else {
      place->second = take_row(letter == 'q');
    }
  }
  return place->second;
}

uint32_t RegisterFile::of_constant(uint64_t bits, bool wide) {
  const auto [place, is_new] = constants_.try_emplace({bits, wide}, 0);
  if (is_new) place->second = take_row(wide);
  return place->second;
}

uint32_t RegisterFile::of_special(Special special) {
  const auto [place, is_new] = specials_.try_emplace(special, 0);
  if (is_new) place->second = take_row(false);
  return place->second;
}

void RegisterFile::describe(Program& program) const {
  for (const auto& [constant, row] : constants_) program.constants.push_back({row, constant.first, constant.second});
  for (const auto& [special, row] : specials_) program.specials.push_back({row, special});
  program.register_bytes = bytes_;
  program.predicate_bytes = rows_begin_;
  program.cells = rows_begin_ / 4 + (bytes_ - rows_begin_) / kRowBytes;
  program.names.resize(program.cells);
  for (const auto& [name, place] : registers_) program.names[program.cell_of(place)] = name;
}

}  // namespace stratum::emulator
