#include "support.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "abi/gated_sm90a.h"
#include "common/file.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"

namespace support {
namespace {

using stratum::ManifestKernel;

struct OperationRow {
  const char* mnemonic;
  const char* params;
  int64_t bytes;
};

const std::map<std::string, OperationRow>& operations() {
  static const std::map<std::string, OperationRow> rows = {
      {"forward", {"fwd", "GatedForwardParams", sizeof(stratum::abi::GatedForwardParams)}},
      {"backward_dq", {"bwd_dq", "GatedBackwardParams", sizeof(stratum::abi::GatedBackwardParams)}},
      {"backward_dkv", {"bwd_dkv", "GatedBackwardParams", sizeof(stratum::abi::GatedBackwardParams)}},
      {"backward_delta", {"bwd_delta", "GatedBackwardSm90aParams", sizeof(stratum::abi::GatedBackwardSm90aParams)}},
      {"backward_round", {"bwd_round", "GatedBackwardSm90aParams", sizeof(stratum::abi::GatedBackwardSm90aParams)}},
      {"backward_fused", {"bwd_fused", "GatedBackwardSm90aParams", sizeof(stratum::abi::GatedBackwardSm90aParams)}},
      {"append", {"append", "GatedAppendParams", sizeof(stratum::abi::GatedAppendParams)}},
      {"page_copy", {"page_copy", "GatedPageCopyParams", sizeof(stratum::abi::GatedPageCopyParams)}},
      {"prefill", {"prefill", "GatedPrefillParams", sizeof(stratum::abi::GatedPrefillParams)}},
      {"decode", {"dec", "GatedDecodeParams", sizeof(stratum::abi::GatedDecodeParams)}},
      {"decode_merge", {"dec_merge", "GatedDecodeMergeParams", sizeof(stratum::abi::GatedDecodeMergeParams)}},
  };
  return rows;
}

std::string image_of(const ManifestKernel& kernel) {
  return "made-up cubin of " + kernel.name + "(" + std::to_string(kernel.params.bytes) + ")";
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "stratum-test-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

ManifestKernel row(const std::string& operation, const std::string& arch, const std::string& dtype, int head_dim,
                   int gate_dim, int group) {
  const OperationRow& facts = operations().at(operation);
  ManifestKernel kernel;
  kernel.key = {.family = "gated",
                .operation = operation,
                .arch = arch,
                .dtype = dtype,
                .head_dim = head_dim,
                .gate_dim = gate_dim,
                .group = group,
                .flags = {}};
  kernel.suffix = "m" + std::to_string(kTileM);
  kernel.name = stratum::kernel_name(kernel.key, facts.mnemonic, kernel.suffix);
  kernel.tile = {{"tile_m", kTileM}, {"tokens", kAppendTokens}};
  kernel.plan = "plans/made_up.json";
  kernel.build_key = stratum::sha256_hex(kernel.name);
  kernel.params = {facts.params, facts.bytes};
  kernel.block = kBlock;
  kernel.shared_bytes = 65536;
  kernel.registers = 128;
  return kernel;
}

std::vector<ManifestKernel> stratum_rows(const std::string& arch, const std::string& dtype, int head_dim,
                                         int gate_dim) {
  std::vector<ManifestKernel> rows;
  for (const auto& [operation, facts] : operations()) {
    if (std::string_view(facts.params) != "GatedBackwardSm90aParams")
      rows.push_back(row(operation, arch, dtype, head_dim, gate_dim));
  }
  return rows;
}

std::vector<ManifestKernel> tensor_map_rows(const std::string& dtype, int head_dim, int gate_dim) {
  std::vector<ManifestKernel> rows;
  for (const char* operation : {"forward", "backward_dq", "backward_dkv"}) {
    ManifestKernel kernel = row(operation, "sm_90a", dtype, head_dim, gate_dim);
    kernel.tile = {{"tile_m", kMapTileM}, {"tile_n", kMapTileN}, {"blocks_per_sm", kMapBlocksPerSm}};
    kernel.params = {"GatedBackwardSm90aParams", sizeof(stratum::abi::GatedBackwardSm90aParams)};
    if (kernel.key.operation == "forward") {
      kernel.params = {"GatedForwardSm90aParams", sizeof(stratum::abi::GatedForwardSm90aParams)};
    }
    kernel.block = 384;
    rows.push_back(std::move(kernel));
  }
  return rows;
}

std::vector<ManifestKernel> fused_backward_rows(const std::string& dtype, int head_dim, int gate_dim, int64_t from) {
  std::vector<ManifestKernel> rows;
  for (const char* operation : {"backward_delta", "backward_fused", "backward_round"}) {
    ManifestKernel kernel = row(operation, "sm_90a", dtype, head_dim, gate_dim);
    kernel.tile = {{"tile_m", kMapTileM}, {"tile_n", kQueryTile}};
    kernel.when.seq_len = stratum::Range{.min = from, .max = {}};
    rows.push_back(std::move(kernel));
  }
  return rows;
}

void write_manifest(const std::filesystem::path& folder, std::vector<ManifestKernel> rows) {
  std::ranges::sort(rows, {}, &ManifestKernel::name);
  const stratum::Manifest manifest{.toolchain = {"13.0.88", "13.0.88"}, .kernels = std::move(rows)};
  stratum::replace_file(folder / stratum::kManifestFile, stratum::serialise_manifest(manifest));
}

void write_pack(const std::filesystem::path& folder, std::vector<ManifestKernel> rows) {
  for (ManifestKernel& kernel : rows) {
    const std::string image = image_of(kernel);
    const std::string hash = stratum::sha256_hex(image);
    kernel.cubin = {kernel.name + "-" + hash.substr(0, 8) + ".cubin.zst", hash, static_cast<int64_t>(image.size())};
    kernel.ptx = {kernel.name + "-" + hash.substr(0, 8) + ".ptx.zst", hash, static_cast<int64_t>(image.size())};
    stratum::replace_file(folder / kernel.cubin.file, stratum::zstd_compress(image));
  }
  write_manifest(folder, std::move(rows));
}

const std::filesystem::path& standard_pack() {
  static const TemporaryFolder folder;
  static const bool written = [] {
    std::vector<ManifestKernel> rows;
    for (const char* arch : {"sm_80", "sm_90"}) {
      for (const char* dtype : {"bfloat16", "float16"}) {
        for (const auto& [head_dim, gate_dim] : {std::pair(64, 32), std::pair(128, 64)}) {
          std::ranges::move(stratum_rows(arch, dtype, head_dim, gate_dim), std::back_inserter(rows));
        }
      }
    }
    write_pack(folder.path(), std::move(rows));
    return true;
  }();
  static_cast<void>(written);
  return folder.path();
}

json standard_config() {
  return {{"head_dim", 64},
          {"gate_dim", 32},
          {"q_heads", 8},
          {"kv_heads", 2},
          {"max_sequences", 4},
          {"max_seq_len", 1024},
          {"max_cached_tokens", 2048},
          {"device", kDeviceSm90}};
}

TestEngine::TestEngine(const json& config, const std::filesystem::path& pack) {
  REQUIRE_STATUS(stratum_build(config.dump().c_str(), pack.c_str(), &handle_), STRATUM_OK);
}

int64_t TestEngine::create() const {
  int64_t id = 0;
  REQUIRE_STATUS(stratum_create(handle_, &id), STRATUM_OK);
  return id;
}

int64_t TestEngine::fork(int64_t parent) const {
  int64_t id = 0;
  REQUIRE_STATUS(stratum_fork(handle_, parent, &id), STRATUM_OK);
  return id;
}

int64_t TestEngine::length(int64_t id) const {
  int64_t length = 0;
  REQUIRE_STATUS(stratum_length(handle_, id, &length), STRATUM_OK);
  return length;
}

stratum_memory TestEngine::memory() const {
  stratum_memory memory{};
  REQUIRE_STATUS(stratum_get_memory(handle_, &memory), STRATUM_OK);
  return memory;
}

Array::Array(std::vector<int64_t> shape, int32_t dtype) {
  int64_t elements = 1;
  for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0; --axis) {
    view.shape[axis] = shape[static_cast<size_t>(axis)];
    view.stride[axis] = elements;
    elements *= view.shape[axis];
  }
  storage_.resize(static_cast<size_t>(elements) * 2 + 16);
  view.data = (reinterpret_cast<uint64_t>(storage_.data()) + 15) / 16 * 16;
  view.rank = static_cast<int32_t>(shape.size());
  view.dtype = dtype;
  view.device = STRATUM_HOST_MEMORY;
}

ServingCall::ServingCall(int64_t tokens)
    : q({tokens, 8, 64}),
      k({tokens, 2, 64}),
      v({tokens, 2, 64}),
      qg({tokens, 8, 32}),
      kg({tokens, 2, 32}),
      o({tokens, 8, 64}) {}

stratum_status ServingCall::prefill(stratum_engine engine, std::vector<int64_t> ids, std::vector<int64_t> lengths,
                                    uint64_t stream) const {
  return stratum_prefill(engine, ids.data(), lengths.data(), static_cast<int64_t>(ids.size()), q, k, v, qg, kg, o,
                         stream);
}

stratum_status ServingCall::decode(stratum_engine engine, std::vector<int64_t> ids, std::vector<int64_t> lengths,
                                   uint64_t stream) const {
  return stratum_decode(engine, ids.data(), lengths.data(), static_cast<int64_t>(ids.size()), q, k, v, qg, kg, o,
                        stream);
}

TrainingCall::TrainingCall(int64_t batch, int64_t seq_len)
    : q({batch, seq_len, 8, 64}),
      k({batch, seq_len, 2, 64}),
      v({batch, seq_len, 2, 64}),
      qg({batch, seq_len, 8, 32}),
      kg({batch, seq_len, 2, 32}),
      o({batch, seq_len, 8, 64}),
      dout({batch, seq_len, 8, 64}),
      dq({batch, seq_len, 8, 64}),
      dk({batch, seq_len, 2, 64}),
      dv({batch, seq_len, 2, 64}),
      dqg({batch, seq_len, 8, 32}),
      dkg({batch, seq_len, 2, 32}),
      workspace(static_cast<size_t>(batch * seq_len * 8 * 3 + (1 << 19))) {}  // and 2 MiB for a fused backward

uint64_t TrainingCall::aligned(int64_t offset) const {
  return (reinterpret_cast<uint64_t>(workspace.data()) + 15) / 16 * 16 + static_cast<uint64_t>(offset);
}

stratum_status TrainingCall::forward(stratum_engine engine, uint64_t stream) const {
  return stratum_forward(engine, q, k, v, qg, kg, o, aligned(0), stream);
}

stratum_status TrainingCall::backward(stratum_engine engine, uint64_t stream) const {
  const int64_t stats_bytes = q.view.shape[0] * q.view.shape[1] * 8 * 8;
  return stratum_backward(engine, q, k, v, qg, kg, o, dout, aligned(0), aligned(stats_bytes), dq, dk, dv, dqg, dkg,
                          stream);
}

void prefill_tokens(stratum_engine engine, int64_t id, int64_t tokens, uint64_t stream) {
  REQUIRE_STATUS(ServingCall(tokens).prefill(engine, {id}, {tokens}, stream), STRATUM_OK);
}

emulator_launch launch(int64_t index) {
  emulator_launch found{};
  REQUIRE(emulator_launch_get(index, &found) == 1);
  return found;
}

std::string mnemonic_of(const emulator_launch& launch) {
  const std::string name = launch.kernel;
  const size_t start = name.find('_') + 1;
  return name.substr(start, name.find("_sm") - start);
}

std::vector<std::string> launched() {
  std::vector<std::string> mnemonics;
  for (int64_t i = 0; i < emulator_launch_count(); ++i) mnemonics.push_back(mnemonic_of(launch(i)));
  return mnemonics;
}

Live Live::now() { return {emulator_live("device"), emulator_live("pinned"), emulator_live("event")}; }

LeakCheck::LeakCheck() {
  emulator_reset();
  before_ = Live::now();
}

LeakCheck::~LeakCheck() noexcept(false) {
  if (std::uncaught_exceptions() > 0) return;
  const Live after = Live::now();
  INFO("device " << after.device << ", was " << before_.device << "; pinned " << after.pinned << ", was "
                 << before_.pinned << "; events " << after.events << ", was " << before_.events);
  CHECK(after == before_);
  INFO((emulator_fault_count() > 0 ? emulator_fault(0) : ""));
  CHECK(emulator_fault_count() == 0);
}

std::string message() { return stratum_error_message(); }

}  // namespace support
