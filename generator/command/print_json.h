// The result of a command as data.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace stratum::gen {

// Prints to stdout, over several lines. Bytes that are no UTF-8, such as those of a file's name, become U+FFFD.
void print_json(const nlohmann::ordered_json& result);

}  // namespace stratum::gen
