// What a kernel did wrong.
#pragma once

#include <stdexcept>
#include <string>

namespace stratum::emulator {

// what() is the whole message: kernel, PTX line, text.
struct Fault : std::runtime_error {
  Fault(const std::string& kernel, int line, const std::string& text)
      : std::runtime_error(kernel + ", PTX line " + std::to_string(line) + ": " + text),
        kernel(kernel),
        line(line),
        text(text) {}
  std::string kernel;
  int line;
  std::string text;  // what happened, and in which block, warp and lane
};

}  // namespace stratum::emulator
