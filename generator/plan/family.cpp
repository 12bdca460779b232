#include "generator/plan/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/file.h"
#include "common/input_error.h"
#include "common/json_fields.h"
#include "common/kernel_key.h"
#include "generator/plan/arch.h"

namespace stratum::gen {
namespace {

using nlohmann::json;

bool is_identifier(const std::string& text) {
  return !text.empty() && std::islower(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; });
}

ValueRule rule_from_json(JsonFields fields) {
  ValueRule rule;
  if (fields.has("one_of")) {
    for (const json& value : fields.array("one_of")) {
      if (!value.is_number_integer()) fields.fail("one_of", "a list of integers");
      rule.one_of.push_back(value.get<int64_t>());
    }
    if (rule.one_of.empty()) fields.fail("one_of", "at least one value");
  } else {
    rule.min = fields.integer("min", INT64_MIN, INT64_MAX);
    rule.max = fields.integer("max", *rule.min, INT64_MAX);
    if (fields.has("multiple_of")) rule.multiple_of = fields.integer("multiple_of", 1, INT64_MAX);
  }
  fields.finish();
  return rule;
}

// Entries that must be a subset of what the generator knows.
std::vector<std::string> known_words(JsonFields& fields, std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::string> words = fields.texts(name);
  if (words.empty()) fields.fail(name, "at least one entry");
  for (const std::string& word : words) {
    if (std::ranges::find(known, word) == known.end()) {
      fields.reject(name, fmt::format("unknown entry \"{}\"; accepted: {}", word, fmt::join(known, ", ")));
    }
  }
  return words;
}

Expression expression_from_json(JsonFields& fields, std::string_view name, const std::vector<std::string>& names) {
  const json& value = fields.value(name);
  if (!value.is_string() && !value.is_number_integer()) fields.fail(name, "an expression (a text) or an integer");
  try {
    Expression expression = Expression::parse(value.is_string() ? value.get<std::string>() : value.dump());
    expression.visit_names([&](const std::string& used, size_t position) {
      if (std::ranges::find(names, used) != names.end()) return;
      const std::string near = nearest_word(used, names);
      throw InputError(fmt::format("\"{}\" at position {}: unknown name {}{}; there are {}", expression.text(),
                                   position, used, near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                                   fmt::join(names, ", ")));
    });
    return expression;
  } catch (const InputError& error) {
    fields.reject(name, error.what());
  }
}

Operation operation_from_json(JsonFields fields, const std::string& name, const std::string& folder) {
  std::map<std::string, ValueRule> rules;
  JsonFields tile = fields.object("tile");
  std::vector<std::string> values = dimension_names();
  for (const std::string& field : tile.names()) {
    if (!is_identifier(field)) tile.reject(field, "a tile field's name is lower-case letters, digits and _");
    rules[field] = rule_from_json(tile.object(field));
    values.push_back(field);
  }
  std::vector<std::string> names = values;
  names.insert(names.end(), constant_names().begin(), constant_names().end());

  Operation operation{.name = name,
                      .mnemonic = fields.text("mnemonic"),
                      .source = folder + "/" + fields.text("source"),
                      .params = fields.text("params"),
                      .tile = std::move(rules),
                      .require = {},
                      .block = expression_from_json(fields, "block", names),
                      .shared_bytes = expression_from_json(fields, "shared_bytes", names),
                      .registers = expression_from_json(fields, "registers", names),
                      .suffix = fields.text_or("suffix", "")};
  if (!is_identifier(operation.mnemonic)) fields.fail("mnemonic", "lower-case letters, digits and _");
  if (fields.has("require")) {
    const json& list = fields.array("require");
    for (size_t i = 0; i < list.size(); ++i) {
      JsonFields item(list[i], fields.source(), fmt::format("{}[{}]", fields.path_of("require"), i));
      Requirement requirement{
          .that = expression_from_json(item, "that", names), .field = item.text("field"), .why = item.text("why")};
      if (std::ranges::find(values, requirement.field) == values.end()) {
        item.fail("field", fmt::format("one of {}", fmt::join(values, ", ")));
      }
      item.finish();
      operation.require.push_back(std::move(requirement));
    }
  }
  Variables zeros;
  for (const std::string& value : values) zeros[value] = 0;
  try {
    fill_suffix(operation.suffix, zeros);
  } catch (const InputError& error) {
    fields.reject("suffix", error.what());
  }
  fields.finish();
  return operation;
}

}  // namespace

bool ValueRule::accepts(int64_t value) const {
  if (!one_of.empty()) return std::ranges::find(one_of, value) != one_of.end();
  return (!min || value >= *min) && (!max || value <= *max) && (!multiple_of || value % *multiple_of == 0);
}

std::string ValueRule::describe() const {
  if (!one_of.empty()) return fmt::format("one of {}", fmt::join(one_of, ", "));
  std::string text = fmt::format("an integer from {} to {}", min.value_or(INT64_MIN), max.value_or(INT64_MAX));
  if (multiple_of && *multiple_of != 1) text += fmt::format(", a multiple of {}", *multiple_of);
  return text;
}

const std::vector<std::string>& dimension_names() {
  static const std::vector<std::string> names = {"head_dim", "gate_dim", "group"};
  return names;
}

const std::vector<std::string>& constant_names() {
  static const std::vector<std::string> names = {"max_shared_bytes", "max_registers"};
  return names;
}

Family read_family(const std::filesystem::path& templates, const std::string& folder) {
  const std::filesystem::path path = templates / folder / "family.json";
  const json document = parse_json(read_file(path), path.string());
  JsonFields fields(document, path.string());

  std::vector<std::string> arch_names;
  for (const Arch& arch : archs()) arch_names.emplace_back(arch.name);

  Family family;
  family.folder = folder;
  family.name = fields.text("family");
  if (!is_identifier(family.name)) fields.fail("family", "lower-case letters, digits and _");
  family.archs = known_words(fields, "archs", arch_names);
  family.dtypes = known_words(fields, "dtypes", key_dtypes());
  JsonFields key = fields.object("key");
  for (const std::string& name : dimension_names()) family.key[name] = rule_from_json(key.object(name));
  key.finish();

  JsonFields operations = fields.object("operations");
  std::set<std::string> mnemonics;
  for (const std::string& name : operations.names()) {
    JsonFields operation = operations.object(name);
    family.operations.emplace(name, operation_from_json(operation, name, folder));
    if (!mnemonics.insert(family.operations.at(name).mnemonic).second) {
      operation.fail("mnemonic", "a word that no other operation has");
    }
  }
  if (family.operations.empty()) fields.fail("operations", "at least one operation");
  fields.finish();
  return family;
}

std::string fill_suffix(const std::string& text, const Variables& variables) {
  std::string filled;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{') {
      filled += text[at];
      continue;
    }
    const size_t end = text.find('}', at);
    const std::string name = text.substr(at + 1, end == text.npos ? text.npos : end - at - 1);
    const auto value = variables.find(name);
    if (end == text.npos || value == variables.end()) {
      throw InputError(fmt::format("\"{}\" at position {}: no value for {{{}}}", text, at + 1, name));
    }
    filled += std::to_string(value->second);
    at = end;
  }
  return filled;
}

}  // namespace stratum::gen
