// Forward and backward over a dense batch: checks and launches, no state. Both may be captured in a graph.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "arrays.h"
#include "config.h"
#include "kernels.h"
#include "scales.h"
#include "training_params.h"

namespace stratum {

class Training {
 public:
  struct Workspace {
    int64_t stats_bytes, delta_bytes;  // delta: whatever backward needs of its own, delta or more
  };

  // Refer to the engine's; `host_memory` as in ArrayChecker.
  Training(const Config& config, const Kernels& kernels, bool host_memory);

  // Throws Error (SHAPE_ERROR) for a size that is negative or too large for one launch.
  Workspace workspace(int64_t batch, int64_t seq_len) const;

  // Queue the work of a call, by kernels with tensor maps where its arrays can be described; nothing if the batch or
  // the sequences are empty. Throw Error: SHAPE_ERROR, STRIDE_ERROR, DTYPE_ERROR, DEVICE_ERROR before anything is
  // queued, DRIVER_ERROR.
  void forward(const ForwardArrays& arrays, uint64_t stats, cuda::Stream stream) const;
  void backward(const BackwardArrays& arrays, uint64_t stats, uint64_t delta, cuda::Stream stream) const;

 private:
  struct Size {
    int64_t batch, seq_len;

    bool empty() const { return batch == 0 || seq_len == 0; }
  };

  // How a backward goes by kernels that compute every pair once and sum dq and dqg up in a workspace.
  struct Fused {
    const LoadedKernel *delta, *fused, *round;
    int64_t query_tiles, key_tile_pairs;  // all heads'
    int64_t workspace_bytes;
  };
  // Empty if the pack has none for the size, or if the workspace takes more than half of the memory limit: the
  // statistics of other forwards that wait for their backward need room too.
  std::optional<Fused> fused(Size size) const;
  void backward_fused(const Fused& kernels, Size size, const BackwardArrays& arrays, uint64_t stats, uint64_t workspace,
                      cuda::Stream stream) const;
  Size check_inputs(const stratum_array* q, const stratum_array* k, const stratum_array* v, const stratum_array* qg,
                    const stratum_array* kg) const;
  const LoadedKernel& kernel(Operation operation, Size size, std::initializer_list<const stratum_array*> arrays) const;
  Grid grid(const LoadedKernel& kernel, Size size, int32_t heads) const;
  Problem problem(Size size) const;

  const Config& config_;
  const Kernels& kernels_;
  ArrayChecker check_;
  Scales scales_;
};

}  // namespace stratum
