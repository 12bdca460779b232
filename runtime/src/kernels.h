// The kernels of an engine: read from the pack, checked, selected, loaded, launched.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/manifest.h"
#include "config.h"
#include "driver.h"
#include "operations.h"
#include "select.h"

namespace stratum {

struct LoadedKernel {
  ManifestKernel row;
  KernelTile tile;
  std::string image;  // the cubin, between reading and loading
  cuda::Function function = nullptr;
};

struct Grid {
  uint64_t x = 1, y = 1;
};

// Queues one kernel, whose only parameter is at `params`. Throws Error (DRIVER_ERROR) naming the kernel.
void launch(const LoadedKernel& kernel, Grid grid, cuda::Stream stream, const void* params);

template <typename Params>
void launch(const LoadedKernel& kernel, Grid grid, cuda::Stream stream, const Params& params) {
  launch(kernel, grid, stream, static_cast<const void*>(&params));
}

// The same for a kernel whose blocks wait for each other: all of the grid's run at once, or the launch fails.
void launch_together(const LoadedKernel& kernel, uint64_t blocks, cuda::Stream stream, const void* params);

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

  // The operation's kernel for a training launch: the first whose ranges hold, and whose parameters have tensor maps
  // only if the launch's arrays are `describable` (tensor_map.h). The operations of a step may get kernels of either
  // kind: they hand over the same statistics and delta.
  const LoadedKernel& training(Operation operation, int64_t seq_len, int64_t batch, bool describable) const;

  // The same of an operation that is optional; null if no kernel takes the launch.
  const LoadedKernel* find_training(Operation operation, int64_t seq_len, int64_t batch, bool describable) const;

  // The operation's kernel for every serving call. Its variants' ranges were tried once, on max_seq_len and
  // max_sequences: a choice by the call's own sizes would make a sequence's bits depend on its neighbours.
  const LoadedKernel& serving(Operation operation) const;

  // Every kernel loaded.
  std::vector<const LoadedKernel*> all() const;

  // Of the device that the kernels were loaded for.
  int32_t multiprocessors() const { return multiprocessors_; }

 private:
  std::array<std::vector<LoadedKernel>, kOperations> candidates_;  // in the order of trial
  int32_t multiprocessors_ = 0;
};

// The manifest of a pack directory. Throws Error (PACK_ERROR).
Manifest read_pack_manifest(const std::filesystem::path& pack);

}  // namespace stratum
