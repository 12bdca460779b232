#include "config.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/input_error.h"
#include "common/json_fields.h"
#include "error.h"

namespace stratum {
namespace {

using nlohmann::json;

constexpr int64_t kMaxDim = std::numeric_limits<int32_t>::max();  // the pack says which there are kernels for
constexpr int64_t kMaxHeads = 65535;                              // heads are one axis of a launch's grid
constexpr int64_t kMaxSequences = 65536;
constexpr int64_t kMaxSeqLen = 1 << 24;           // positions are 32-bit in kernels, with room for a tile past the end
constexpr int64_t kMaxTokens = int64_t{1} << 36;  // page indices are 32-bit: 2^30 pages, and two for each sequence

std::vector<std::string> known_keys() {
  return {"head_dim",      "gate_dim",    "q_heads",           "kv_heads",           "dtype",           "modes",
          "max_sequences", "max_seq_len", "max_cached_tokens", "memory_limit_bytes", "batch_invariant", "device"};
}

// Reads the keys of one configuration.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {}

  bool has(const char* key) const { return object_.contains(key); }

  [[noreturn]] void reject(const char* key, std::string_view accepted) const {
    fail(STRATUM_CONFIG_ERROR, key, "expected {}, got {}", accepted, describe_json(object_.at(key)));
  }

  const json& required(const char* key, std::string_view accepted, std::string_view why = "") const {
    if (has(key)) return object_.at(key);
    fail(STRATUM_CONFIG_ERROR, key, "missing{}; expected {}", why, accepted);
  }

  int64_t integer(const char* key, int64_t min, int64_t max, std::string_view why = "") const {
    const std::string accepted = fmt::format("an integer from {} to {}", min, max);
    const json& value = required(key, accepted, why);
    if (!value.is_number_integer()) reject(key, accepted);
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      reject(key, accepted);
    }
    const int64_t number = value.get<int64_t>();
    if (number < min || number > max) reject(key, accepted);
    return number;
  }

  int32_t small_integer(const char* key, int64_t min, int64_t max) const {
    return static_cast<int32_t>(integer(key, min, max));
  }

  const json& at(const char* key) const { return object_.at(key); }

 private:
  const json& object_;
};

json parse_object(std::string_view text) {
  json object;
  try {
    object = parse_json(text, "config");
  } catch (const InputError& error) {
    fail(STRATUM_CONFIG_ERROR, "", "{}", error.what());
  }
  if (!object.is_object()) fail(STRATUM_CONFIG_ERROR, "", "expected a JSON object, got {}", describe_json(object));
  const std::vector<std::string> known = known_keys();
  for (const auto& item : object.items()) {
    if (std::ranges::find(known, item.key()) != known.end()) continue;
    const std::string near = nearest_word(item.key(), known);
    fail(STRATUM_CONFIG_ERROR, item.key(), "unknown key (value {}){}; accepted keys: {}", describe_json(item.value()),
         near.empty() ? "" : fmt::format("; did you mean {}?", near), fmt::join(known, ", "));
  }
  return object;
}

void read_dtype(const Reader& reader, Config& config) {
  if (!reader.has("dtype")) return;
  const json& value = reader.at("dtype");
  if (value == "bfloat16") {
    config.dtype = STRATUM_BFLOAT16;
  } else if (value == "float16") {
    config.dtype = STRATUM_FLOAT16;
  } else {
    reader.reject("dtype", "\"bfloat16\" or \"float16\"");
  }
}

void read_modes(const Reader& reader, Config& config) {
  if (!reader.has("modes")) return;
  constexpr std::string_view kAccepted =
      "a list of one or more of \"training\", \"prefill\", \"decode\", each at most once";
  const json& value = reader.at("modes");
  if (!value.is_array() || value.empty()) reader.reject("modes", kAccepted);
  config.training = config.prefill = config.decode = false;
  for (const json& mode : value) {
    bool* chosen = mode == "training"  ? &config.training
                   : mode == "prefill" ? &config.prefill
                   : mode == "decode"  ? &config.decode
                                       : nullptr;
    if (chosen == nullptr || *chosen) reader.reject("modes", kAccepted);
    *chosen = true;
  }
}

void read_serving(const Reader& reader, Config& config) {
  const auto capacity = [&](const char* key, int64_t max) -> int64_t {
    if (!config.serving() && !reader.has(key)) return 0;
    return reader.integer(key, 1, max, ", and the modes prefill and decode need it");
  };
  config.max_sequences = capacity("max_sequences", kMaxSequences);
  config.max_seq_len = capacity("max_seq_len", kMaxSeqLen);
  config.max_cached_tokens = capacity("max_cached_tokens", kMaxTokens);
}

}  // namespace

Config parse_config(std::string_view text) {
  const json object = parse_object(text);
  const Reader reader(object);
  Config config;
  config.head_dim = reader.small_integer("head_dim", 1, kMaxDim);
  config.gate_dim = reader.small_integer("gate_dim", 1, kMaxDim);
  config.q_heads = reader.small_integer("q_heads", 1, kMaxHeads);
  config.kv_heads = reader.small_integer("kv_heads", 1, kMaxHeads);
  if (config.q_heads % config.kv_heads != 0) {
    reader.reject("q_heads", fmt::format("a multiple of kv_heads, {}", config.kv_heads));
  }
  read_dtype(reader, config);
  read_modes(reader, config);
  read_serving(reader, config);
  if (reader.has("memory_limit_bytes") && !reader.at("memory_limit_bytes").is_null()) {
    config.memory_limit_bytes = reader.integer("memory_limit_bytes", 1, std::numeric_limits<int64_t>::max());
  }
  if (reader.has("batch_invariant")) {
    if (!reader.at("batch_invariant").is_boolean()) reader.reject("batch_invariant", "true or false");
    config.batch_invariant = reader.at("batch_invariant").get<bool>();
  }
  config.device = reader.small_integer("device", 0, std::numeric_limits<int32_t>::max());
  return config;
}

nlohmann::ordered_json config_to_json(const Config& config) {
  nlohmann::ordered_json modes = nlohmann::ordered_json::array();
  if (config.training) modes.push_back("training");
  if (config.prefill) modes.push_back("prefill");
  if (config.decode) modes.push_back("decode");
  nlohmann::ordered_json object = {{"head_dim", config.head_dim},  {"gate_dim", config.gate_dim},
                                   {"q_heads", config.q_heads},    {"kv_heads", config.kv_heads},
                                   {"dtype", config.dtype_name()}, {"modes", std::move(modes)}};
  if (config.serving()) {
    object["max_sequences"] = config.max_sequences;
    object["max_seq_len"] = config.max_seq_len;
    object["max_cached_tokens"] = config.max_cached_tokens;
  }
  object["memory_limit_bytes"] =
      config.memory_limit_bytes ? nlohmann::ordered_json(*config.memory_limit_bytes) : nlohmann::ordered_json();
  object["batch_invariant"] = config.batch_invariant;
  object["device"] = config.device;
  return object;
}

}  // namespace stratum
