#include "kernels.h"

#include "common/input_error.h"
#include "error.h"
#include "modules.h"

namespace stratum {
namespace {

// Runs a function of common/ with its errors as PACK_ERROR.
template <typename F>
auto reading_pack(F function) {
  try {
    return function();
  } catch (const InputError& error) {
    throw Error(STRATUM_PACK_ERROR, "", error.what());
  }
}

void check_launched(const char* symbol, cuda::Result result, const LoadedKernel& kernel) {
  if (result != cuda::kSuccess) cuda::throw_driver_error(symbol, result, kernel.row.name);
}

}  // namespace

void launch(const LoadedKernel& kernel, Grid grid, cuda::Stream stream, const void* params) {
  if (grid.x > static_cast<uint64_t>(kMaxGridX) || grid.y > static_cast<uint64_t>(kMaxGridY)) {
    fail(STRATUM_INTERNAL_ERROR, "", "kernel {}: a grid of {} x {} blocks is beyond one launch", kernel.row.name,
         grid.x, grid.y);
  }
  // As a list of pointers: the driver knows where in a launch's memory the kernel looks for its struct, which isn't the
  // beginning if the struct has tensor maps. A buffer in `extra` would be copied to the beginning.
  void* pointers[] = {const_cast<void*>(params)};
  const auto& call = cuda::driver().launch_kernel;
  const cuda::Result result =
      call.attempt(kernel.function, static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), 1,
                   static_cast<unsigned>(kernel.row.block), 1, 1, static_cast<unsigned>(kernel.row.shared_bytes),
                   stream, pointers, nullptr);
  check_launched(call.symbol(), result, kernel);
}

void launch_together(const LoadedKernel& kernel, uint64_t blocks, cuda::Stream stream, const void* params) {
  void* pointers[] = {const_cast<void*>(params)};
  const auto& call = cuda::driver().launch_cooperative_kernel;
  const cuda::Result result =
      call.attempt(kernel.function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(kernel.row.block), 1, 1,
                   static_cast<unsigned>(kernel.row.shared_bytes), stream, pointers);
  check_launched(call.symbol(), result, kernel);
}

Kernels::Kernels(const Config& config, const Manifest& manifest, const std::filesystem::path& pack,
                 ComputeCapability capability) {
  const Stratum stratum{.family = "gated",
                        .dtype = config.dtype_name(),
                        .head_dim = config.head_dim,
                        .gate_dim = config.gate_dim,
                        .group = config.group()};
  for (const Operation operation : operations_of(config)) {
    auto& candidates = candidates_[static_cast<size_t>(operation)];
    bool complete = false;  // the last candidate takes whatever the others leave
    const auto choose = is_optional(operation) ? find_kernels : select_kernels;
    for (const ManifestKernel* row : choose(manifest, stratum, operation_name(operation), capability)) {
      const KernelTile tile = kernel_tile(operation, *row);
      if (!is_training(operation) && !row->when.holds(config.max_seq_len, config.max_sequences)) continue;
      candidates.push_back(
          {.row = *row, .tile = tile, .image = reading_pack([&] { return read_pack_file(pack, row->cubin); })});
      complete = !is_training(operation) || (!tile.has_tensor_maps() && row->when.always());
      if (complete) break;
    }
    if (!complete && !is_optional(operation)) {
      fail(STRATUM_PACK_ERROR, "", "the kernels of {} leave some sizes or strides without one",
           operation_name(operation));
    }
  }
}

void Kernels::load(cuda::Device device) {
  cuda::driver().device_get_attribute(&multiprocessors_, cuda::kMultiprocessorCount, device);
  for (auto& candidates : candidates_) {
    for (LoadedKernel& kernel : candidates) {
      kernel.function =
          load_function(device, kernel.row.cubin.sha256, kernel.image, kernel.row.name, kernel.row.shared_bytes);
      kernel.image = {};
    }
  }
}

const LoadedKernel* Kernels::find_training(Operation operation, int64_t seq_len, int64_t batch,
                                           bool describable) const {
  for (const LoadedKernel& kernel : candidates_[static_cast<size_t>(operation)]) {
    if (kernel.row.when.holds(seq_len, batch) && (describable || !kernel.tile.has_tensor_maps())) return &kernel;
  }
  return nullptr;
}

const LoadedKernel& Kernels::training(Operation operation, int64_t seq_len, int64_t batch, bool describable) const {
  const LoadedKernel* const kernel = find_training(operation, seq_len, batch, describable);
  if (kernel != nullptr) return *kernel;
  fail(STRATUM_INTERNAL_ERROR, "", "no kernel of {} for length {}, batch {}", operation_name(operation), seq_len,
       batch);
}

const LoadedKernel& Kernels::serving(Operation operation) const {
  return candidates_[static_cast<size_t>(operation)].front();
}

std::vector<const LoadedKernel*> Kernels::all() const {
  std::vector<const LoadedKernel*> kernels;
  for (const auto& candidates : candidates_) {
    for (const LoadedKernel& kernel : candidates) kernels.push_back(&kernel);
  }
  return kernels;
}

Manifest read_pack_manifest(const std::filesystem::path& pack) {
  return reading_pack([&] { return read_manifest(pack); });
}

}  // namespace stratum
