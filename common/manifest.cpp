#include "common/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/input_error.h"
#include "common/json_fields.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"

namespace stratum {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The largest file of a pack. A bound on what a damaged manifest can make a reader allocate.
constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

ordered_json range_to_json(const Range& range) {
  const auto bound = [](const std::optional<int64_t>& value) { return value ? ordered_json(*value) : ordered_json(); };
  return ordered_json::array({bound(range.min), bound(range.max)});
}

Range range_from_json(JsonFields& fields, std::string_view name) {
  constexpr std::string_view kExpected = "[min, max], integers of at least 0 or null for open, min <= max";
  const json& pair = fields.array(name);
  if (pair.size() != 2) fields.fail(name, kExpected);
  const auto bound = [&](const json& value) -> std::optional<int64_t> {
    if (value.is_null()) return std::nullopt;
    if (!value.is_number_integer() || value.get<int64_t>() < 0) fields.fail(name, kExpected);
    return value.get<int64_t>();
  };
  const Range range{bound(pair[0]), bound(pair[1])};
  if (range.min && range.max && *range.min > *range.max) fields.fail(name, kExpected);
  return range;
}

ordered_json file_to_json(const PackFile& file) {
  return {{"file", file.file}, {"sha256", file.sha256}, {"bytes", file.bytes}};
}

std::string hash_field(JsonFields& fields, std::string_view name) {
  std::string hash = fields.text(name);
  if (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != hash.npos) {
    fields.fail(name, "64 lower-case hexadecimal digits");
  }
  return hash;
}

PackFile file_from_json(JsonFields fields) {
  PackFile file;
  file.file = fields.text("file");
  // A name with a folder in it could read outside the pack.
  if (file.file.find('/') != file.file.npos) fields.fail("file", "a file's name without a folder");
  file.sha256 = hash_field(fields, "sha256");
  file.bytes = fields.integer("bytes", 1, kMaxFileBytes);
  fields.finish();
  return file;
}

KernelParams params_from_json(JsonFields fields) {
  KernelParams params{.name = fields.text("struct"), .bytes = fields.integer("bytes", 1, 32764)};
  fields.finish();
  return params;
}

ManifestKernel kernel_from_json(JsonFields fields) {
  const auto small = [&](std::string_view name, int64_t min, int64_t max) {
    return static_cast<int32_t>(fields.integer(name, min, max));
  };
  ManifestKernel kernel;
  kernel.name = fields.text("name");
  kernel.key = key_from_json(fields.object("key"));
  kernel.suffix = fields.text_or("suffix", "");
  kernel.variant = small("variant", 0, INT32_MAX);
  kernel.when = when_from_json(fields.object("when"));
  JsonFields tile = fields.object("tile");
  for (const std::string& name : tile.names()) kernel.tile[name] = tile.integer(name, INT64_MIN, INT64_MAX);
  kernel.plan = fields.text("plan");
  if (fields.has("allow_spills")) kernel.allow_spills = spill_allowance_from_json(fields.object("allow_spills"));
  if (fields.has("ordered_reduction")) kernel.ordered_reduction = fields.text("ordered_reduction");
  kernel.build_key = hash_field(fields, "build_key");
  kernel.cubin = file_from_json(fields.object("cubin"));
  kernel.ptx = file_from_json(fields.object("ptx"));
  kernel.params = params_from_json(fields.object("params"));
  kernel.block = small("block", 1, 1024);
  kernel.cluster = small("cluster", 1, 16);
  kernel.shared_bytes = small("shared_bytes", 0, INT32_MAX);
  kernel.registers = small("registers", 1, 255);
  kernel.spill_bytes = small("spill_bytes", 0, INT32_MAX);
  kernel.local_bytes = small("local_bytes", 0, INT32_MAX);
  kernel.static_shared_bytes = small("static_shared_bytes", 0, INT32_MAX);
  fields.finish();
  return kernel;
}

// Keys sorted, no spaces: nlohmann's plain `json` keeps its keys in a sorted map.
std::string self_hash(json document) {
  document.erase("sha256");
  return sha256_hex(document.dump());
}

// Objects and lists one item a line down to the depth of a kernel's fields, then on one line: readable, and git's diffs
// show the field that changed.
void print(const ordered_json& value, int depth, std::string& out) {
  constexpr int kInlineDepth = 3;
  if (!value.is_structured() || value.empty() || depth >= kInlineDepth) {
    out += value.dump();
    return;
  }
  const std::string indent(2 * static_cast<size_t>(depth), ' ');
  out += value.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& item : value.items()) {
    out += fmt::format("{}\n{}  ", first ? "" : ",", indent);
    if (value.is_object()) out += ordered_json(item.key()).dump() + ": ";
    print(item.value(), depth + 1, out);
    first = false;
  }
  out += fmt::format("\n{}{}", indent, value.is_array() ? "]" : "}");
}

void check_rows(const std::vector<ManifestKernel>& kernels, const std::string& source) {
  std::map<KernelKey, std::vector<int32_t>> variants;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (i > 0 && !(kernels[i - 1].name < kernels[i].name)) {
      throw InputError(
          fmt::format("{}: kernels[{}].name: rows must be sorted by name with none twice, but {} follows {}", source, i,
                      kernels[i].name, kernels[i - 1].name));
    }
    variants[kernels[i].key].push_back(kernels[i].variant);
  }
  for (auto& [key, numbers] : variants) {
    std::ranges::sort(numbers);
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] != static_cast<int32_t>(i)) {
        throw InputError(fmt::format("{}: variants of {} must be numbered 0, 1, ...; got {}", source, describe_key(key),
                                     fmt::join(numbers, ", ")));
      }
    }
  }
}

}  // namespace

ordered_json when_to_json(const When& when) {
  ordered_json result = ordered_json::object();
  if (when.seq_len) result["seq_len"] = range_to_json(*when.seq_len);
  if (when.batch) result["batch"] = range_to_json(*when.batch);
  return result;
}

When when_from_json(JsonFields fields) {
  When when;
  if (fields.has("seq_len")) when.seq_len = range_from_json(fields, "seq_len");
  if (fields.has("batch")) when.batch = range_from_json(fields, "batch");
  fields.finish();
  return when;
}

std::string describe_toolchain(const ToolchainVersions& versions) {
  return fmt::format("NVRTC {} and ptxas {}", versions.nvrtc, versions.ptxas);
}

SpillAllowance spill_allowance_from_json(JsonFields fields) {
  SpillAllowance allowance{.bytes = fields.integer("bytes", 1, 1 << 20), .why = fields.text("why")};
  fields.finish();
  return allowance;
}

KernelFacts ManifestKernel::facts() const {
  return {.param_bytes = params.bytes,
          .cluster = cluster,
          .registers = registers,
          .spill_bytes = spill_bytes,
          .local_bytes = local_bytes,
          .static_shared_bytes = static_shared_bytes};
}

void ManifestKernel::set_facts(const KernelFacts& facts) {
  params.bytes = facts.param_bytes;
  cluster = facts.cluster;
  registers = facts.registers;
  spill_bytes = facts.spill_bytes;
  local_bytes = facts.local_bytes;
  static_shared_bytes = facts.static_shared_bytes;
}

ordered_json kernel_to_json(const ManifestKernel& kernel) {
  ordered_json row;
  row["name"] = kernel.name;
  row["key"] = key_to_json(kernel.key);
  row["suffix"] = kernel.suffix;
  row["variant"] = kernel.variant;
  row["when"] = when_to_json(kernel.when);
  row["tile"] = kernel.tile;
  row["plan"] = kernel.plan;
  if (kernel.allow_spills) {
    row["allow_spills"] = {{"bytes", kernel.allow_spills->bytes}, {"why", kernel.allow_spills->why}};
  }
  if (kernel.ordered_reduction) row["ordered_reduction"] = *kernel.ordered_reduction;
  row["build_key"] = kernel.build_key;
  row["cubin"] = file_to_json(kernel.cubin);
  row["ptx"] = file_to_json(kernel.ptx);
  row["params"] = {{"struct", kernel.params.name}, {"bytes", kernel.params.bytes}};
  row["block"] = kernel.block;
  row["cluster"] = kernel.cluster;
  row["shared_bytes"] = kernel.shared_bytes;
  row["registers"] = kernel.registers;
  row["spill_bytes"] = kernel.spill_bytes;
  row["local_bytes"] = kernel.local_bytes;
  row["static_shared_bytes"] = kernel.static_shared_bytes;
  return row;
}

const ManifestKernel* Manifest::find(std::string_view name) const {
  const auto row =
      std::ranges::lower_bound(kernels, name, {}, [](const ManifestKernel& k) -> std::string_view { return k.name; });
  return row != kernels.end() && row->name == name ? &*row : nullptr;
}

std::string serialise_manifest(const Manifest& manifest) {
  ordered_json document;
  document["schema"] = kManifestSchema;
  document["sha256"] = "";
  document["toolchain"] = {{"nvrtc", manifest.toolchain.nvrtc}, {"ptxas", manifest.toolchain.ptxas}};
  document["kernels"] = ordered_json::array();
  for (const ManifestKernel& kernel : manifest.kernels) document["kernels"].push_back(kernel_to_json(kernel));
  document["sha256"] = self_hash(json::parse(document.dump()));
  std::string text;
  print(document, 0, text);
  return text + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  JsonFields fields(document, source);
  if (const json& schema = fields.value("schema"); schema != kManifestSchema) {
    fields.fail("schema", fmt::format("{} (a pack of another version of Stratum?)", kManifestSchema));
  }
  const std::string stated = hash_field(fields, "sha256");
  if (const std::string actual = self_hash(document); stated != actual) {
    fields.reject("sha256",
                  fmt::format("the manifest was altered: it says {}, its content hashes to {}", stated, actual));
  }
  Manifest manifest;
  JsonFields toolchain = fields.object("toolchain");
  manifest.toolchain = {.nvrtc = toolchain.text("nvrtc"), .ptxas = toolchain.text("ptxas")};
  toolchain.finish();
  const json& rows = fields.array("kernels");
  for (size_t i = 0; i < rows.size(); ++i) {
    manifest.kernels.push_back(kernel_from_json(JsonFields(rows[i], source, fmt::format("kernels[{}]", i))));
  }
  fields.finish();
  check_rows(manifest.kernels, source);
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestFile;
  return parse_manifest(read_file(path), path.string());
}

std::string read_pack_file(const std::filesystem::path& folder, const PackFile& file) {
  const std::filesystem::path path = folder / file.file;
  std::string bytes = zstd_decompress(read_file(path), file.bytes, path.string());
  if (const std::string actual = sha256_hex(bytes); actual != file.sha256) {
    throw InputError(fmt::format("{}: altered: the manifest says sha256 {}, the content hashes to {}", path.string(),
                                 file.sha256, actual));
  }
  return bytes;
}

}  // namespace stratum
