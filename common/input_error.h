// The exception for everything that is wrong with what a caller gave: a field of a JSON file, a file of the pack.
#pragma once

#include <stdexcept>

namespace stratum {

// what() names the file, the field where there is one, what was expected and what came.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stratum
