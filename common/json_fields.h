// Reading a JSON object field by field, with errors that name the file, the field, what was expected and what came.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stratum {

// Parses JSON text. A syntax error, text that is no UTF-8, a number beyond a double's range or a key given twice in one
// object throws InputError that names line and column, or the field; `source` is the name of the file, for messages.
nlohmann::json parse_json(std::string_view text, const std::string& source);

// A JSON value as one short line, for messages.
std::string describe_json(const nlohmann::json& value);

// The word of `known` nearest to `word`, or "" if none is near enough to be a slip of the hand.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

// One object of a parsed file. Every getter marks its field as known; finish() then refuses the fields nobody asked
// for. Refers to the JSON value, which must outlive it.
class JsonFields {
 public:
  // `path` is the object's place in the file: "" or "kernels[3].key".
  JsonFields(const nlohmann::json& value, std::string source, std::string path = "");

  const std::string& source() const { return source_; }
  const std::string& path() const { return path_; }

  bool has(std::string_view name);
  std::vector<std::string> names() const;  // of all fields present, sorted

  const nlohmann::json& value(std::string_view name);  // any type; missing is an error
  JsonFields object(std::string_view name);
  std::string text(std::string_view name);                           // not empty
  std::string text_or(std::string_view name, std::string fallback);  // may be empty
  int64_t integer(std::string_view name, int64_t min, int64_t max);
  std::vector<std::string> texts(std::string_view name);
  const nlohmann::json& array(std::string_view name);

  // Throws if the object has a field that none of the getters was called for; suggests the nearest one that was.
  void finish() const;

  // Throws InputError "source: path.name: expected ..., got ...".
  [[noreturn]] void fail(std::string_view name, std::string_view expected) const;
  // Throws InputError "source: path.name: message".
  [[noreturn]] void reject(std::string_view name, std::string_view message) const;

  std::string path_of(std::string_view name) const;

 private:
  const nlohmann::json& value_;
  std::string source_, path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace stratum
