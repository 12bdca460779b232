// The exception that becomes a status of the C interface, and the text that goes with it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "stratum.h"

namespace stratum {

// what() is "argument: message", or the message alone where no argument is to blame.
class Error : public std::runtime_error {
 public:
  Error(stratum_status status, std::string argument, const std::string& message)
      : std::runtime_error(argument.empty() ? message : argument + ": " + message),
        status_(status),
        argument_(std::move(argument)) {}

  stratum_status status() const { return status_; }
  const std::string& argument() const { return argument_; }

 private:
  stratum_status status_;
  std::string argument_;
};

// Throws an Error whose message is formatted.
template <typename... Args>
[[noreturn]] void fail(stratum_status status, std::string argument, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw Error(status, std::move(argument), fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace stratum
