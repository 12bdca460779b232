#include "generator/pack/build_cache.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "common/input_error.h"
#include "common/json_fields.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"

namespace stratum::gen {
namespace {

namespace fs = std::filesystem;

PackFile describe(const std::string& name, const std::string& bytes, std::string_view kind) {
  PackFile file;
  file.sha256 = sha256_hex(bytes);
  file.bytes = static_cast<int64_t>(bytes.size());
  file.file = pack_file_name(name, file.sha256, kind);
  return file;
}

nlohmann::json to_json(const BuiltKernel& kernel) {
  const KernelFacts& facts = kernel.facts;
  return {{"cubin", {{"sha256", kernel.cubin.sha256}, {"bytes", kernel.cubin.bytes}}},
          {"ptx", {{"sha256", kernel.ptx.sha256}, {"bytes", kernel.ptx.bytes}}},
          {"param_bytes", facts.param_bytes},
          {"cluster", facts.cluster},
          {"registers", facts.registers},
          {"spill_bytes", facts.spill_bytes},
          {"local_bytes", facts.local_bytes},
          {"static_shared_bytes", facts.static_shared_bytes}};
}

PackFile read_frame(JsonFields fields, const std::string& name, const fs::path& path, std::string_view kind,
                    std::string& frame) {
  PackFile file{.file = {}, .sha256 = fields.text("sha256"), .bytes = fields.integer("bytes", 1, 1 << 30)};
  file.file = pack_file_name(name, file.sha256, kind);
  frame = read_file(path);
  if (sha256_hex(zstd_decompress(frame, file.bytes, path.string())) != file.sha256) {
    throw InputError(fmt::format("{}: altered", path.string()));
  }
  return file;
}

}  // namespace

std::string pack_file_name(const std::string& name, const std::string& sha256, std::string_view kind) {
  return fmt::format("{}-{}.{}.zst", name, sha256.substr(0, 8), kind);
}

BuiltKernel pack_kernel(const std::string& name, const CompiledKernel& kernel) {
  return {.cubin_frame = zstd_compress(kernel.cubin),
          .ptx_frame = zstd_compress(kernel.ptx),
          .cubin = describe(name, kernel.cubin, "cubin"),
          .ptx = describe(name, kernel.ptx, "ptx"),
          .facts = kernel.facts};
}

BuildCache::BuildCache(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(logs(), error);
  if (error) throw InputError(fmt::format("{}: cannot create: {}", logs().string(), error.message()));
}

std::optional<BuiltKernel> BuildCache::find(const std::string& name, const std::string& key) const {
  const fs::path entry = folder_ / (key + ".json");
  if (!fs::exists(entry)) return std::nullopt;
  try {
    const nlohmann::json document = parse_json(read_file(entry), entry.string());
    JsonFields fields(document, entry.string());
    const auto small = [&](const char* field, int64_t min) {
      return static_cast<int32_t>(fields.integer(field, min, INT32_MAX));
    };
    BuiltKernel kernel;
    kernel.cubin =
        read_frame(fields.object("cubin"), name, folder_ / (key + ".cubin.zst"), "cubin", kernel.cubin_frame);
    kernel.ptx = read_frame(fields.object("ptx"), name, folder_ / (key + ".ptx.zst"), "ptx", kernel.ptx_frame);
    kernel.facts = {.param_bytes = fields.integer("param_bytes", 1, 1 << 20),
                    .cluster = small("cluster", 1),
                    .registers = small("registers", 1),
                    .spill_bytes = small("spill_bytes", 0),
                    .local_bytes = small("local_bytes", 0),
                    .static_shared_bytes = small("static_shared_bytes", 0)};
    return kernel;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void BuildCache::store(const std::string& key, const BuiltKernel& kernel) const {
  replace_file(folder_ / (key + ".cubin.zst"), kernel.cubin_frame);
  replace_file(folder_ / (key + ".ptx.zst"), kernel.ptx_frame);
  replace_file(folder_ / (key + ".json"), to_json(kernel).dump(2) + "\n");  // last: it makes the entry
}

}  // namespace stratum::gen
