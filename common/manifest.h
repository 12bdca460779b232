// The manifest of a pack, schema 1 (docs/formats.md): one row a kernel, all that the runtime and a reader need.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/kernel_key.h"

namespace stratum {

inline constexpr int64_t kManifestSchema = 1;
inline constexpr std::string_view kManifestFile = "manifest.json";

// An inclusive range, open where a bound is missing.
struct Range {
  std::optional<int64_t> min, max;

  bool contains(int64_t value) const { return (!min || *min <= value) && (!max || value <= *max); }
  bool operator==(const Range&) const = default;
};

// When a variant is launched; an absent range holds always.
struct When {
  std::optional<Range> seq_len, batch;

  bool always() const { return !seq_len && !batch; }
  bool holds(int64_t seq_len_value, int64_t batch_value) const {
    return (!seq_len || seq_len->contains(seq_len_value)) && (!batch || batch->contains(batch_value));
  }
  bool operator==(const When&) const = default;
};

// A plan's leave to use local memory.
struct SpillAllowance {
  int64_t bytes = 0;
  std::string why;

  bool operator==(const SpillAllowance&) const = default;
};

// A compressed file of the pack; hash and size are of the uncompressed bytes.
struct PackFile {
  std::string file;  // name in the pack's folder
  std::string sha256;
  int64_t bytes = 0;

  bool operator==(const PackFile&) const = default;
};

struct KernelParams {
  std::string name;  // the struct in templates/abi
  int64_t bytes = 0;

  bool operator==(const KernelParams&) const = default;
};

// What is known of a kernel only after it was compiled.
struct KernelFacts {
  int64_t param_bytes = 0;  // of the parameter struct
  int32_t cluster = 1;      // blocks
  int32_t registers = 0;    // a thread
  int32_t spill_bytes = 0;  // stores + loads
  int32_t local_bytes = 0;  // a thread
  int32_t static_shared_bytes = 0;

  bool operator==(const KernelFacts&) const = default;
};

struct ManifestKernel {
  std::string name;  // also the symbol
  KernelKey key;
  std::string suffix;
  int32_t variant = 0;  // place among the variants of the key, in the plan's order
  When when;
  std::map<std::string, int64_t> tile;
  std::string plan;
  std::optional<SpillAllowance> allow_spills;
  std::optional<std::string> ordered_reduction;  // the plan's reason
  std::string build_key;
  PackFile cubin, ptx;
  KernelParams params;
  int32_t block = 0;         // threads
  int32_t cluster = 1;       // blocks
  int32_t shared_bytes = 0;  // dynamic, a block
  int32_t registers = 0;     // a thread
  int32_t spill_bytes = 0;   // stores + loads
  int32_t local_bytes = 0;   // a thread
  int32_t static_shared_bytes = 0;

  KernelFacts facts() const;
  void set_facts(const KernelFacts& facts);

  bool operator==(const ManifestKernel&) const = default;
};

struct ToolchainVersions {
  std::string nvrtc, ptxas;  // "13.0.88"

  bool operator==(const ToolchainVersions&) const = default;
};

// "NVRTC 13.0.88 and ptxas 13.0.88", for messages.
std::string describe_toolchain(const ToolchainVersions& versions);

struct Manifest {
  ToolchainVersions toolchain;
  std::vector<ManifestKernel> kernels;  // sorted by name

  // The row of that name, or null.
  const ManifestKernel* find(std::string_view name) const;

  bool operator==(const Manifest&) const = default;
};

// One row as JSON, fields in the documented order.
nlohmann::ordered_json kernel_to_json(const ManifestKernel& kernel);
nlohmann::ordered_json when_to_json(const When& when);

// Reads an object with `seq_len` and `batch`, each [min, max] with null for open.
When when_from_json(JsonFields fields);

// Reads an object with `bytes` and `why`.
SpillAllowance spill_allowance_from_json(JsonFields fields);

// The file's text: the self-hash included, one line a kernel's field, equal manifests give equal texts.
std::string serialise_manifest(const Manifest& manifest);

// Parses and checks a manifest: schema, self-hash, every field's type and range, rows sorted with no name twice,
// variants of a key numbered 0, 1, ... `source` is the file's name, for messages. Throws InputError.
Manifest parse_manifest(std::string_view text, const std::string& source);

// Reads `folder`/manifest.json. Throws InputError.
Manifest read_manifest(const std::filesystem::path& folder);

// The uncompressed bytes of a file of the pack, their size and hash checked. Throws InputError naming the file and what
// is wrong: missing, truncated, altered.
std::string read_pack_file(const std::filesystem::path& folder, const PackFile& file);

}  // namespace stratum
