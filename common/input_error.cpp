#include "common/input_error.h"

#include <fmt/format.h>

namespace stratum {
namespace {

std::string printable(std::string_view message) {
  std::string text;
  for (const char c : message) {
    const auto code = static_cast<unsigned char>(c);
    if ((code >= 0x20 && code != 0x7f) || c == '\n' || c == '\t') {
      text += c;
    } else {
      text += fmt::format("\\u{:04x}", code);
    }
  }
  return text;
}

}  // namespace

InputError::InputError(std::string_view message) : std::runtime_error(printable(message)) {}

}  // namespace stratum
