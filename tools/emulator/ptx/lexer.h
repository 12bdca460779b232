// Splits PTX into words, numbers and punctuation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stratum::emulator::ptx {

struct Token {
  // Word: identifiers, directives (.reg) and opcodes (ld.global.u32), registers (%r1, %tid.x). Mark: one character.
  enum Type { Word, Number, Text, Mark, End } type;
  std::string text;
  int line;
};

// All tokens, an End last. ParseError for a character that has no place in PTX.
std::vector<Token> tokenize(std::string_view source);

}  // namespace stratum::emulator::ptx
