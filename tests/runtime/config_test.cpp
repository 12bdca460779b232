// Errors of the configuration: each names its key, says what is accepted and what came.
#include "config.h"

#include <catch2/catch.hpp>

#include "support.h"

namespace {

using namespace support;

// Builds with one key changed (or removed, for null) and returns status, argument, message.
struct Outcome {
  stratum_status status;
  std::string argument, message;
};

Outcome build(const json& config) {
  stratum_engine engine = 0;
  const stratum_status status = stratum_build(config.dump().c_str(), standard_pack().c_str(), &engine);
  const Outcome outcome{status, stratum_error_argument(), stratum_error_message()};
  if (status == STRATUM_OK) stratum_close(engine);
  return outcome;
}

Outcome with(const std::string& key, const json& value) {
  json config = standard_config();
  config[key] = value;
  return build(config);
}

Outcome without(const std::string& key) {
  json config = standard_config();
  config.erase(key);
  return build(config);
}

void check_error(const Outcome& outcome, const std::string& argument, const std::string& text) {
  INFO(outcome.message);
  CHECK(outcome.status == STRATUM_CONFIG_ERROR);
  CHECK(outcome.argument == argument);
  CHECK(outcome.message == text);
}

}  // namespace

TEST_CASE("A bad value is refused with what is accepted") {
  const LeakCheck leaks;
  for (const char* key : {"head_dim", "gate_dim"}) {
    for (const json& value : {json(0), json(-16), json(64.0), json(true), json("64"), json(nullptr), json(2147483648),
                              json(18446744073709551615ull)}) {
      check_error(with(key, value), key,
                  std::string(key) + ": expected an integer from 1 to 2147483647, got " + value.dump());
    }
  }
  check_error(with("q_heads", 7), "q_heads", "q_heads: expected a multiple of kv_heads, 2, got 7");
  check_error(with("kv_heads", 0), "kv_heads", "kv_heads: expected an integer from 1 to 65535, got 0");
  check_error(with("kv_heads", "2"), "kv_heads", "kv_heads: expected an integer from 1 to 65535, got \"2\"");
  check_error(with("dtype", "float32"), "dtype", "dtype: expected \"bfloat16\" or \"float16\", got \"float32\"");
  check_error(with("batch_invariant", 1), "batch_invariant", "batch_invariant: expected true or false, got 1");
  check_error(with("device", -1), "device", "device: expected an integer from 0 to 2147483647, got -1");
  check_error(with("device", 3), "device", "device: expected 0 to 2, this machine's CUDA devices, got 3");
  check_error(with("max_seq_len", 18446744073709551615ull), "max_seq_len",
              "max_seq_len: expected an integer from 1 to 16777216, got 18446744073709551615");
  check_error(with("memory_limit_bytes", 0), "memory_limit_bytes",
              "memory_limit_bytes: expected an integer from 1 to 9223372036854775807, got 0");
}

TEST_CASE("Which dims there are is the pack's affair") {
  const LeakCheck leaks;
  for (const auto& [head_dim, gate_dim] :
       {std::pair(100, 32), std::pair(64, 1), std::pair(512, 32), std::pair(1, 7), std::pair(2147483647, 2147483647)}) {
    json config = standard_config();
    config["head_dim"] = head_dim;
    config["gate_dim"] = gate_dim;
    const Outcome outcome = build(config);
    INFO(outcome.message);
    CHECK(outcome.status == STRATUM_NO_KERNEL);
    CHECK_THAT(outcome.message, Catch::Contains("head_dim " + std::to_string(head_dim)) &&
                                    Catch::Contains("the nearest it has is gated forward sm_90 bfloat16"));
  }
  const TemporaryFolder folder;
  write_pack(folder.path(), stratum_rows("sm_90", "bfloat16", 520, 8));
  json config = standard_config();
  config["head_dim"] = 520;
  config["gate_dim"] = 8;
  const TestEngine engine(config, folder.path());
  CHECK(engine.memory().bytes_cache == engine.memory().pages_total * 2 * 64 * (2 * 520 + 8) * 2);
}

TEST_CASE("Modes are a list of known words, each at most once") {
  for (const json& modes :
       {json("training"), json::array(), json{"training", "train"}, json{"decode", "decode"}, json{1}}) {
    const Outcome outcome = with("modes", modes);
    INFO(outcome.message);
    CHECK(outcome.status == STRATUM_CONFIG_ERROR);
    CHECK(outcome.argument == "modes");
  }
  CHECK(with("modes", {"decode", "training"}).status == STRATUM_OK);
}

TEST_CASE("Missing and unknown keys are named") {
  for (const char* key :
       {"head_dim", "gate_dim", "q_heads", "kv_heads", "max_sequences", "max_seq_len", "max_cached_tokens", "device"}) {
    const Outcome outcome = without(key);
    INFO(outcome.message);
    CHECK(outcome.status == STRATUM_CONFIG_ERROR);
    CHECK(outcome.argument == key);
  }
  check_error(with("head_dims", 64), "head_dims",
              "head_dims: unknown key (value 64); did you mean head_dim?; accepted keys: head_dim, gate_dim, q_heads, "
              "kv_heads, dtype, modes, max_sequences, max_seq_len, max_cached_tokens, memory_limit_bytes, "
              "batch_invariant, device");
}

TEST_CASE("Serving capacity is needed only where a serving mode is asked for") {
  json config = standard_config();
  config["modes"] = {"training"};
  for (const char* key : {"max_sequences", "max_seq_len", "max_cached_tokens"}) config.erase(key);
  CHECK(build(config).status == STRATUM_OK);
  config["modes"] = {"decode"};
  check_error(build(config), "max_sequences",
              "max_sequences: missing, and the modes prefill and decode need it; expected an integer from 1 to 65536");
}

TEST_CASE("What is no JSON object is refused") {
  stratum_engine engine = 0;
  for (const char* text : {"", "{", "[]", "{\"head_dim\": 64, \"head_dim\": 64}"}) {
    CHECK(stratum_build(text, standard_pack().c_str(), &engine) == STRATUM_CONFIG_ERROR);
    CHECK(message() != "");
  }
  CHECK(stratum_build(nullptr, standard_pack().c_str(), &engine) == STRATUM_CONFIG_ERROR);
  CHECK(stratum_build("{}", nullptr, &engine) == STRATUM_CONFIG_ERROR);
}

TEST_CASE("Defaults") {
  json config = standard_config();
  const stratum::Config parsed = stratum::parse_config(config.dump());
  CHECK(parsed.dtype == STRATUM_BFLOAT16);
  CHECK(parsed.training);
  CHECK(parsed.prefill);
  CHECK(parsed.decode);
  CHECK_FALSE(parsed.batch_invariant);
  CHECK_FALSE(parsed.memory_limit_bytes.has_value());
  CHECK(parsed.group() == 4);
  config["memory_limit_bytes"] = nullptr;
  CHECK_FALSE(stratum::parse_config(config.dump()).memory_limit_bytes.has_value());
}
