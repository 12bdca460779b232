// The exception for compilers that are missing, of another version, or that failed for a reason of their own.
#pragma once

#include <stdexcept>

namespace stratum::gen {

class ToolchainError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stratum::gen
