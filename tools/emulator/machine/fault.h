// What a kernel did wrong.
#pragma once

#include <stdexcept>
#include <string>

#include "machine/check.h"

namespace stratum::emulator {

// what() is the whole message: kernel, PTX line, check, text.
struct Fault : std::runtime_error {
  Fault(Check check, const std::string& kernel, int line, const std::string& text)
      : std::runtime_error(kernel + ", PTX line " + std::to_string(line) + ": " + name_of(check) + ": " + text),
        check(check),
        kernel(kernel),
        line(line),
        text(text) {}
  Check check;
  std::string kernel;
  int line;
  std::string text;  // what happened, and in which block, warp and lane
};

}  // namespace stratum::emulator
