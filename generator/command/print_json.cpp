#include "generator/command/print_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace stratum::gen {

void print_json(const nlohmann::ordered_json& result) {
  fmt::print("{}\n", result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace stratum::gen
