// The configuration of an engine.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "stratum.h"

namespace stratum {

struct Config {
  int32_t head_dim = 0, gate_dim = 0, q_heads = 0, kv_heads = 0;
  stratum_dtype dtype = STRATUM_BFLOAT16;
  bool training = true, prefill = true, decode = true;                // modes
  int64_t max_sequences = 0, max_seq_len = 0, max_cached_tokens = 0;  // 0 where no serving mode is asked for
  std::optional<int64_t> memory_limit_bytes;
  bool batch_invariant = false;
  int32_t device = 0;

  int32_t group() const { return q_heads / kv_heads; }
  bool serving() const { return prefill || decode; }
  std::string dtype_name() const { return dtype == STRATUM_BFLOAT16 ? "bfloat16" : "float16"; }
};

// Parses and checks a JSON object. Throws Error (CONFIG_ERROR) that names the key, what is accepted and what came.
Config parse_config(std::string_view text);

nlohmann::ordered_json config_to_json(const Config& config);

}  // namespace stratum
