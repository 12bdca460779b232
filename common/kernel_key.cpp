#include "common/kernel_key.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/json_fields.h"

namespace stratum {

const std::vector<std::string>& key_dtypes() {
  static const std::vector<std::string> dtypes = {"bfloat16", "float16"};
  return dtypes;
}

std::string_view short_dtype(std::string_view dtype) { return dtype == "bfloat16" ? "bf16" : "fp16"; }

std::string short_arch(std::string_view arch) {
  std::string text(arch);
  std::erase(text, '_');
  return text;
}

std::string kernel_name(const KernelKey& key, std::string_view mnemonic, std::string_view suffix) {
  std::string name = fmt::format("{}_{}_{}_{}_d{}_r{}_g{}", key.family, mnemonic, short_arch(key.arch),
                                 short_dtype(key.dtype), key.head_dim, key.gate_dim, key.group);
  for (const std::string& flag : key.flags) name += "_" + flag;
  if (!suffix.empty()) name.append("_").append(suffix);
  return name;
}

std::string describe_key(const KernelKey& key) {
  return fmt::format("{} {} {} {} head_dim {} gate_dim {} group {}{}{}", key.family, key.operation, key.arch, key.dtype,
                     key.head_dim, key.gate_dim, key.group == 0 ? "any" : std::to_string(key.group),
                     key.flags.empty() ? "" : " flags ", fmt::join(key.flags, ","));
}

nlohmann::ordered_json key_to_json(const KernelKey& key) {
  return {{"family", key.family},     {"operation", key.operation}, {"arch", key.arch},   {"dtype", key.dtype},
          {"head_dim", key.head_dim}, {"gate_dim", key.gate_dim},   {"group", key.group}, {"flags", key.flags}};
}

KernelKey key_from_json(JsonFields fields) {
  KernelKey key;
  key.family = fields.text("family");
  key.operation = fields.text("operation");
  key.arch = fields.text("arch");
  key.dtype = fields.text("dtype");
  if (std::ranges::find(key_dtypes(), key.dtype) == key_dtypes().end()) {
    fields.fail("dtype", fmt::format("one of {}", fmt::join(key_dtypes(), ", ")));
  }
  key.head_dim = static_cast<int32_t>(fields.integer("head_dim", 1, INT32_MAX));
  key.gate_dim = static_cast<int32_t>(fields.integer("gate_dim", 0, INT32_MAX));
  key.group = static_cast<int32_t>(fields.integer("group", 0, INT32_MAX));
  key.flags = fields.texts("flags");
  fields.finish();
  return key;
}

}  // namespace stratum
