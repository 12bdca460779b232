#include "common/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/input_error.h"

namespace stratum {
namespace {

using nlohmann::json;

// Letters to insert, delete or replace to turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Where in the file the parser is.
class FieldTracker {
 public:
  explicit FieldTracker(const std::string& source) : source_(source) {}

  void follow(json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        check_depth();
        levels_.push_back({.is_list = false, .index = 0, .key = {}, .keys = {}});
        break;
      case json::parse_event_t::array_start:
        check_depth();
        levels_.push_back({.is_list = true, .index = 0, .key = {}, .keys = {}});
        break;
      case json::parse_event_t::key:
        enter(parsed.get<std::string>());
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        levels_.pop_back();
        [[fallthrough]];
      case json::parse_event_t::value:
        if (!levels_.empty()) ++levels_.back().index;
        break;
    }
  }

  // "kernels[3].key", or "" at the top level.
  std::string field() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.is_list) {
        path += fmt::format("[{}]", level.index);
      } else if (!level.key.empty()) {
        path += (path.empty() ? "" : ".") + level.key;
      }
    }
    return path;
  }

 private:
  static constexpr size_t kDeepest = 64;

  struct Level {
    bool is_list;
    size_t index;     // of the item that comes next
    std::string key;  // the last one read
    std::set<std::string> keys;
  };

  // The library writes a value by recursion, which must not take the whole stack.
  void check_depth() const {
    if (levels_.size() == kDeepest) throw InputError(fmt::format("{}: nested more than {} deep", source_, kDeepest));
  }

  // The library keeps the last of two equal keys without a word; a file that says two things must not be guessed at.
  void enter(const std::string& key) {
    if (!levels_.back().keys.insert(key).second) {
      throw InputError(fmt::format("{}: the key \"{}\" is given twice in one object", source_, key));
    }
    levels_.back().key = key;
  }

  const std::string& source_;
  std::vector<Level> levels_;
};

[[noreturn]] void refuse(const json::exception& error, const std::string& source, const std::string& field) {
  // The library's text starts with "[json.exception.parse_error.101] ".
  std::string_view reason = error.what();
  if (const size_t end = reason.find("] "); end != reason.npos) reason.remove_prefix(end + 2);
  throw InputError(fmt::format("{}: {}not valid JSON: {}", source, field.empty() ? "" : field + ": ", reason));
}

}  // namespace

json parse_json(std::string_view text, const std::string& source) {
  FieldTracker tracker(source);
  try {
    return json::parse(text.begin(), text.end(), [&](int, json::parse_event_t event, const json& parsed) {
      tracker.follow(event, parsed);
      return true;
    });
  } catch (const json::parse_error& error) {
    refuse(error, source, "");  // tells line and column
  } catch (const json::exception& error) {
    refuse(error, source, tracker.field());
  }
}

std::string describe_json(const json& value) {
  constexpr size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>((word.size() + 1) / 3, 1) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

JsonFields::JsonFields(const json& value, std::string source, std::string path)
    : value_(value), source_(std::move(source)), path_(std::move(path)) {
  if (!value_.is_object()) {
    throw InputError(fmt::format("{}: {}: expected an object, got {}", source_, path_.empty() ? "top level" : path_,
                                 describe_json(value_)));
  }
}

bool JsonFields::has(std::string_view name) {
  known_.emplace(name);
  return value_.contains(name);
}

std::vector<std::string> JsonFields::names() const {
  std::vector<std::string> names;
  for (const auto& item : value_.items()) names.push_back(item.key());
  return names;
}

std::string JsonFields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void JsonFields::reject(std::string_view name, std::string_view message) const {
  throw InputError(fmt::format("{}: {}: {}", source_, path_of(name), message));
}

void JsonFields::fail(std::string_view name, std::string_view expected) const {
  const auto found = value_.find(name);
  reject(name, fmt::format("expected {}, got {}", expected, found == value_.end() ? "nothing" : describe_json(*found)));
}

const json& JsonFields::value(std::string_view name) {
  known_.emplace(name);
  const auto found = value_.find(name);
  if (found != value_.end()) return *found;
  // A misspelt field shows up as a missing one first; name the likely culprit.
  std::string hint;
  std::vector<std::string> unclaimed;
  for (const std::string& present : names()) {
    if (!known_.contains(present)) unclaimed.push_back(present);
  }
  if (const std::string near = nearest_word(name, unclaimed); !near.empty()) {
    hint = fmt::format(" (did you mean it by \"{}\"?)", near);
  }
  reject(name, "required, but missing" + hint);
}

JsonFields JsonFields::object(std::string_view name) { return JsonFields(value(name), source_, path_of(name)); }

std::string JsonFields::text(std::string_view name) {
  const json& field = value(name);
  if (!field.is_string() || field.get_ref<const std::string&>().empty()) fail(name, "a text");
  return field.get<std::string>();
}

std::string JsonFields::text_or(std::string_view name, std::string fallback) {
  if (!has(name)) return fallback;
  const json& field = value(name);
  if (!field.is_string()) fail(name, "a text");
  return field.get<std::string>();
}

int64_t JsonFields::integer(std::string_view name, int64_t min, int64_t max) {
  const json& field = value(name);
  const bool fits = field.is_number_integer() && (!field.is_number_unsigned() || field.get<uint64_t>() <= INT64_MAX);
  if (!fits || field.get<int64_t>() < min || field.get<int64_t>() > max) {
    fail(name, max == INT64_MAX ? fmt::format("an integer of at least {}", min)
                                : fmt::format("an integer from {} to {}", min, max));
  }
  return field.get<int64_t>();
}

const json& JsonFields::array(std::string_view name) {
  const json& field = value(name);
  if (!field.is_array()) fail(name, "a list");
  return field;
}

std::vector<std::string> JsonFields::texts(std::string_view name) {
  std::vector<std::string> texts;
  for (const json& item : array(name)) {
    if (!item.is_string()) fail(name, "a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

void JsonFields::finish() const {
  for (const std::string& name : names()) {
    if (known_.contains(name)) continue;
    const std::vector<std::string> accepted(known_.begin(), known_.end());
    const std::string near = nearest_word(name, accepted);
    reject(name,
           fmt::format("unknown field{}; accepted: {}",
                       near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near), fmt::join(accepted, ", ")));
  }
}

}  // namespace stratum
