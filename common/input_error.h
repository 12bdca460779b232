// The exception for everything that is wrong with what a caller gave: a field of a JSON file, a file of the pack.
#pragma once

#include <stdexcept>
#include <string_view>

namespace stratum {

// what() names the file, the field where there is one, what was expected and what came.
class InputError : public std::runtime_error {
 public:
  // Control characters other than newline and tab become "\u0000" and so on: a name from a file may hold a zero, which
  // would end what(), or a terminal's escape codes.
  explicit InputError(std::string_view message);
};

}  // namespace stratum
