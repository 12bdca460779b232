// Tile plans (docs/formats.md) and what they ask for: one KernelSpec a kernel, checked before anything is compiled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/kernel_key.h"
#include "common/manifest.h"

namespace stratum::gen {

// Characters of a kernel's name: the longest file named after it, NAME-HASH8.cubin.zst, must have at most 255.
inline constexpr size_t kMaxKernelName = 255 - std::string_view("-01234567.cubin.zst").size();

// A kernel to build. Everything in it comes from a plan and its family.
struct KernelSpec {
  KernelKey key;
  std::string name;  // also the symbol
  std::string suffix;
  int32_t variant = 0;  // place among the variants of the key
  When when;
  std::map<std::string, int64_t> tile;
  std::optional<SpillAllowance> allow_spills;
  std::optional<std::string> ordered_reduction;
  std::string plan;    // the file: relative to the templates folder, or its bare name if it lies elsewhere
  std::string place;   // file and field, for messages
  std::string source;  // template, relative to the templates folder
  std::string params;  // parameter struct
  int32_t block = 0;
  int32_t shared_bytes = 0;  // dynamic
};

// Reads plans (files, or folders whose *.json are taken) and expands them into kernels, sorted by name. Families come
// from `templates`. Throws one InputError with every problem of every file: file, field, value, accepted.
std::vector<KernelSpec> read_plans(const std::filesystem::path& templates,
                                   const std::vector<std::filesystem::path>& paths);

}  // namespace stratum::gen
