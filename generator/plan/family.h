// A kernel family's description, family.json (docs/formats.md): the operations there are, and what a plan gives for
// each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generator/plan/expression.h"

namespace stratum::gen {

// The values that a tile field or a dimension of the key may take.
struct ValueRule {
  std::optional<int64_t> min, max, multiple_of;
  std::vector<int64_t> one_of;

  bool accepts(int64_t value) const;
  // "an integer from 16 to 256, a multiple of 16".
  std::string describe() const;
};

// A relation between fields that must hold.
struct Requirement {
  Expression that;
  std::string field;  // the one to name when it does not
  std::string why;
};

struct Operation {
  std::string name;      // "forward"
  std::string mnemonic;  // "fwd"
  std::string source;    // template, relative to the templates folder
  std::string params;    // parameter struct
  std::map<std::string, ValueRule> tile;
  std::vector<Requirement> require;
  Expression block, shared_bytes, registers;
  std::string suffix;  // text with holes {tile_m}
};

struct Family {
  std::string folder;  // relative to the templates folder, "gated/portable"
  std::string name;    // in keys, "gated"
  std::vector<std::string> archs, dtypes;
  std::map<std::string, ValueRule> key;  // head_dim, gate_dim, group
  std::map<std::string, Operation> operations;
};

// The key's dimensions, and the constants of the target, that expressions and rules may name.
const std::vector<std::string>& dimension_names();
const std::vector<std::string>& constant_names();

// Reads `templates`/`folder`/family.json and checks every field and expression of it. Throws InputError.
Family read_family(const std::filesystem::path& templates, const std::string& folder);

// The text with each {name} replaced by its value. Throws InputError for a name without one.
std::string fill_suffix(const std::string& text, const Variables& variables);

}  // namespace stratum::gen
