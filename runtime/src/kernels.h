// The kernels of an engine: read from the pack, checked, selected, loaded, launched.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/manifest.h"
#include "config.h"
#include "driver.h"
#include "select.h"

namespace stratum {

enum class Operation {
  kForward,
  kBackwardDq,
  kBackwardDkv,
  kAppend,
  kPageCopy,
  kPrefill,
  kDecode,
  kDecodeMerge,
};
inline constexpr size_t kOperations = 8;

// The operation's name in the manifest.
std::string_view operation_name(Operation operation);

// The operations that the modes of a configuration launch. With batch_invariant, decode runs prefill's kernel, so that
// both give the same bits.
std::vector<Operation> operations_of(const Config& config);

struct LoadedKernel {
  ManifestKernel row;
  int32_t block_rows = 0;  // query or key rows (tile_m), or tokens (append), that a block covers; else 0
  std::string image;       // the cubin, between reading and loading
  cuda::Function function = nullptr;
};

struct Grid {
  uint64_t x = 1, y = 1;
};

// Queues one kernel; `params` is its only parameter. Throws Error (DRIVER_ERROR) naming the kernel.
void launch(const LoadedKernel& kernel, Grid grid, cuda::Stream stream, const void* params, size_t params_bytes);

template <typename Params>
void launch(const LoadedKernel& kernel, Grid grid, cuda::Stream stream, const Params& params) {
  launch(kernel, grid, stream, &params, sizeof(Params));
}

// The most blocks along a grid's axes.
inline constexpr int64_t kMaxGridX = 2147483647;
inline constexpr int64_t kMaxGridY = 65535;

class Kernels {
 public:
  // Selects what the configuration needs and reads it from the pack, checking every hash: no driver call. Throws Error
  // (NO_KERNEL, PACK_ERROR).
  Kernels(const Config& config, const Manifest& manifest, const std::filesystem::path& pack,
          ComputeCapability capability);

  // Loads every kernel into the current context, the device's primary one. Throws Error (DRIVER_ERROR).
  void load(cuda::Device device);

  // The operation's kernel for a training call: the first variant whose ranges hold.
  const LoadedKernel& training(Operation operation, int64_t seq_len, int64_t batch) const;

  // The operation's kernel for every serving call. Its variants' ranges were tried once, on max_seq_len and
  // max_sequences: a choice by the call's own sizes would make a sequence's bits depend on its neighbours.
  const LoadedKernel& serving(Operation operation) const;

  // Every kernel loaded.
  std::vector<const LoadedKernel*> all() const;

 private:
  std::array<std::vector<LoadedKernel>, kOperations> variants_;
};

// The manifest of a pack directory. Throws Error (PACK_ERROR).
Manifest read_pack_manifest(const std::filesystem::path& pack);

}  // namespace stratum
