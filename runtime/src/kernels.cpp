#include "kernels.h"

#include "abi/gated.h"
#include "common/input_error.h"
#include "error.h"
#include "modules.h"

namespace stratum {
namespace {

struct OperationFacts {
  std::string_view name;
  std::string_view params;  // the struct that this library passes
  size_t params_bytes;
  const char* rows_field;  // the tile's field that the grid depends on, or null
};

// In the order of Operation.
constexpr std::array<OperationFacts, kOperations> kFacts = {{
    {"forward", "GatedForwardParams", sizeof(abi::GatedForwardParams), "tile_m"},
    {"backward_dq", "GatedBackwardParams", sizeof(abi::GatedBackwardParams), "tile_m"},
    {"backward_dkv", "GatedBackwardParams", sizeof(abi::GatedBackwardParams), "tile_m"},
    {"append", "GatedAppendParams", sizeof(abi::GatedAppendParams), "tokens"},
    {"page_copy", "GatedPageCopyParams", sizeof(abi::GatedPageCopyParams), nullptr},
    {"prefill", "GatedPrefillParams", sizeof(abi::GatedPrefillParams), "tile_m"},
    {"decode", "GatedDecodeParams", sizeof(abi::GatedDecodeParams), "tile_m"},
    {"decode_merge", "GatedDecodeMergeParams", sizeof(abi::GatedDecodeMergeParams), nullptr},
}};

const OperationFacts& facts(Operation operation) { return kFacts[static_cast<size_t>(operation)]; }

bool is_training(Operation operation) {
  return operation == Operation::kForward || operation == Operation::kBackwardDq ||
         operation == Operation::kBackwardDkv;
}

// A kernel built against other parameter structs than this library's must not be launched.
void check_params(Operation operation, const ManifestKernel& kernel) {
  const OperationFacts& expected = facts(operation);
  if (kernel.params.name == expected.params && kernel.params.bytes == static_cast<int64_t>(expected.params_bytes)) {
    return;
  }
  fail(STRATUM_PACK_ERROR, "",
       "kernel {} takes {} of {} bytes, this library passes {} of {}: the pack belongs to another "
       "version",
       kernel.name, kernel.params.name, kernel.params.bytes, expected.params, expected.params_bytes);
}

// Rows that a block of the kernel covers.
int32_t block_rows(Operation operation, const ManifestKernel& kernel) {
  const char* field = facts(operation).rows_field;
  if (field == nullptr) return 0;
  const auto value = kernel.tile.find(field);
  if (value != kernel.tile.end() && value->second >= 1 && value->second <= INT32_MAX) {
    return static_cast<int32_t>(value->second);
  }
  fail(STRATUM_PACK_ERROR, "", "kernel {}: its tile in the manifest has no {} of at least 1", kernel.name, field);
}

// Runs a function of common/ with its errors as PACK_ERROR.
template <typename F>
auto reading_pack(F function) {
  try {
    return function();
  } catch (const InputError& error) {
    throw Error(STRATUM_PACK_ERROR, "", error.what());
  }
}

}  // namespace

std::string_view operation_name(Operation operation) { return facts(operation).name; }

std::vector<Operation> operations_of(const Config& config) {
  using enum Operation;
  std::vector<Operation> operations;
  const auto add = [&](bool wanted, std::initializer_list<Operation> group) {
    if (wanted) operations.insert(operations.end(), group);
  };
  operations.reserve(kOperations);
  add(config.training, {kForward, kBackwardDq, kBackwardDkv});
  add(config.serving(), {kAppend, kPageCopy});
  add(config.prefill || (config.decode && config.batch_invariant), {kPrefill});
  add(config.decode && !config.batch_invariant, {kDecode, kDecodeMerge});
  return operations;
}

void launch(const LoadedKernel& kernel, Grid grid, cuda::Stream stream, const void* params, size_t params_bytes) {
  if (grid.x > static_cast<uint64_t>(kMaxGridX) || grid.y > static_cast<uint64_t>(kMaxGridY)) {
    fail(STRATUM_INTERNAL_ERROR, "", "kernel {}: a grid of {} x {} blocks is beyond one launch", kernel.row.name,
         grid.x, grid.y);
  }
  // One buffer with its size rather than a list of pointers: whoever receives the launch knows how much to copy.
  void* extra[] = {cuda::kLaunchParamBuffer, const_cast<void*>(params), cuda::kLaunchParamBufferBytes, &params_bytes,
                   cuda::kLaunchParamEnd};
  const auto& call = cuda::driver().launch_kernel;
  const cuda::Result result = call.attempt(kernel.function, static_cast<unsigned>(grid.x),
                                           static_cast<unsigned>(grid.y), 1, static_cast<unsigned>(kernel.row.block), 1,
                                           1, static_cast<unsigned>(kernel.row.shared_bytes), stream, nullptr, extra);
  if (result != cuda::kSuccess) cuda::throw_driver_error(call.symbol(), result, kernel.row.name);
}

Kernels::Kernels(const Config& config, const Manifest& manifest, const std::filesystem::path& pack,
                 ComputeCapability capability) {
  const Stratum stratum{.family = "gated",
                        .dtype = config.dtype_name(),
                        .head_dim = config.head_dim,
                        .gate_dim = config.gate_dim,
                        .group = config.group()};
  for (const Operation operation : operations_of(config)) {
    auto& variants = variants_[static_cast<size_t>(operation)];
    for (const ManifestKernel* row : select_kernels(manifest, stratum, operation_name(operation), capability)) {
      check_params(operation, *row);
      if (!is_training(operation) && !row->when.holds(config.max_seq_len, config.max_sequences)) continue;
      variants.push_back({.row = *row,
                          .block_rows = block_rows(operation, *row),
                          .image = reading_pack([&] { return read_pack_file(pack, row->cubin); })});
      if (!is_training(operation) || row->when.always()) break;
    }
    if (variants.empty() || (is_training(operation) && !variants.back().row.when.always())) {
      fail(STRATUM_PACK_ERROR, "", "the variants of {} leave some sizes without a kernel", operation_name(operation));
    }
  }
}

void Kernels::load(cuda::Device device) {
  for (auto& variants : variants_) {
    for (LoadedKernel& kernel : variants) {
      kernel.function =
          load_function(device, kernel.row.cubin.sha256, kernel.image, kernel.row.name, kernel.row.shared_bytes);
      kernel.image = {};
    }
  }
}

const LoadedKernel& Kernels::training(Operation operation, int64_t seq_len, int64_t batch) const {
  for (const LoadedKernel& kernel : variants_[static_cast<size_t>(operation)]) {
    if (kernel.row.when.holds(seq_len, batch)) return kernel;
  }
  fail(STRATUM_INTERNAL_ERROR, "", "no variant of {} for length {}, batch {}", operation_name(operation), seq_len,
       batch);
}

const LoadedKernel& Kernels::serving(Operation operation) const {
  return variants_[static_cast<size_t>(operation)].front();
}

std::vector<const LoadedKernel*> Kernels::all() const {
  std::vector<const LoadedKernel*> kernels;
  for (const auto& variants : variants_) {
    for (const LoadedKernel& kernel : variants) kernels.push_back(&kernel);
  }
  return kernels;
}

Manifest read_pack_manifest(const std::filesystem::path& pack) {
  return reading_pack([&] { return read_manifest(pack); });
}

}  // namespace stratum
