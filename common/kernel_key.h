// The key of a kernel: which stratum it computes, on what. One struct for the plan, the build, the manifest and the
// runtime's selection; printing it is the kernel's name.
#pragma once

#include <compare>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace stratum {

class JsonFields;

struct KernelKey {
  std::string family;     // "gated"
  std::string operation;  // "forward"
  std::string arch;       // "sm_80", "sm_90a"
  std::string dtype;      // "bfloat16" or "float16"
  int32_t head_dim = 0;
  int32_t gate_dim = 0;
  int32_t group = 0;  // q_heads / kv_heads; 0: chosen at run time, any ratio
  std::vector<std::string> flags;

  auto operator<=>(const KernelKey&) const = default;
};

// The dtypes a key may have.
const std::vector<std::string>& key_dtypes();

// "bfloat16" -> "bf16", "float16" -> "fp16", as names spell it.
std::string_view short_dtype(std::string_view dtype);

// "sm_90a" -> "sm90a".
std::string short_arch(std::string_view arch);

// The kernel's name and symbol, gated_fwd_sm80_bf16_d128_r64_g0_m128n64 (docs/formats.md). `mnemonic` is the
// operation's short word, `suffix` the tile suffix; an empty suffix is left out.
std::string kernel_name(const KernelKey& key, std::string_view mnemonic, std::string_view suffix);

// The key in words, for messages: "gated forward sm_80 bfloat16 head_dim 128 gate_dim 64 group any".
std::string describe_key(const KernelKey& key);

nlohmann::ordered_json key_to_json(const KernelKey& key);

// Reads the object that key_to_json writes. Throws InputError naming the field.
KernelKey key_from_json(JsonFields fields);

}  // namespace stratum
