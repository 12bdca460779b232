#include "training.h"

#include <algorithm>
#include <variant>

#include "error.h"
#include "observer.h"
#include "tensor_map.h"

namespace stratum {
namespace {

// Positions are 32-bit in kernels, with room for a tile past the end.
constexpr int64_t kMaxSeqLen = int64_t{1} << 30;
constexpr int64_t kMaxRows = int64_t{1} << 56;

void check_size(int64_t batch, int64_t seq_len, int32_t q_heads) {
  if (batch < 0 || batch > INT32_MAX) fail(STRATUM_SHAPE_ERROR, "batch", "expected 0 to {}, got {}", INT32_MAX, batch);
  if (seq_len < 0 || seq_len > kMaxSeqLen) {
    fail(STRATUM_SHAPE_ERROR, "seq_len", "expected 0 to {}, got {}", kMaxSeqLen, seq_len);
  }
  // The heads of all batches are one axis of a launch, and the bytes of the statistics must be countable.
  if (batch * q_heads > kMaxGridX || batch * q_heads * seq_len > kMaxRows) {
    fail(STRATUM_SHAPE_ERROR, "batch", "expected at most {} with {} heads of {} tokens, got {}",
         std::min(kMaxGridX, kMaxRows / std::max<int64_t>(seq_len, 1)) / q_heads, q_heads, seq_len, batch);
  }
}

// Queues a kernel with whichever parameters it takes.
void queue(const LoadedKernel& kernel, Grid blocks, cuda::Stream stream, const auto& params) {
  std::visit([&](const auto& one) { launch(kernel, blocks, stream, one); }, params);
}

}  // namespace

Training::Training(const Config& config, const Kernels& kernels, bool host_memory)
    : config_(config), kernels_(kernels), check_(config, host_memory), scales_(config) {}

Training::Workspace Training::workspace(int64_t batch, int64_t seq_len) const {
  check_size(batch, seq_len, config_.q_heads);
  const int64_t rows = batch * config_.q_heads * seq_len;
  const auto kernels = fused({batch, seq_len});
  return {.stats_bytes = rows * int64_t{sizeof(abi::RowStats)},
          .delta_bytes = std::max(rows * int64_t{sizeof(float)}, kernels ? kernels->workspace_bytes : 0)};
}

std::optional<Training::Fused> Training::fused(Size size) const {
  if (size.empty()) return {};
  const auto find = [&](Operation operation) {
    return kernels_.find_training(operation, size.seq_len, size.batch, /*describable=*/true);
  };
  Fused kernels{.delta = find(Operation::kBackwardDelta),
                .fused = find(Operation::kBackwardFused),
                .round = find(Operation::kBackwardRound),
                .query_tiles = 0,
                .key_tile_pairs = 0,
                .workspace_bytes = 0};
  if (kernels.delta == nullptr || kernels.fused == nullptr || kernels.round == nullptr) return {};
  const auto tiles = [&](const LoadedKernel& kernel) {
    return (size.seq_len + kernel.tile.rows - 1) / kernel.tile.rows;
  };
  kernels.query_tiles = size.batch * config_.q_heads * tiles(*kernels.delta);
  kernels.key_tile_pairs = (size.batch * config_.kv_heads + 1) / 2 * tiles(*kernels.fused);
  if (std::max(kernels.query_tiles, kernels.key_tile_pairs) > kMaxGridX) return {};
  kernels.workspace_bytes = kernels.query_tiles * abi::query_tile_bytes(config_.head_dim, config_.gate_dim);
  if (config_.memory_limit_bytes && kernels.workspace_bytes > *config_.memory_limit_bytes / 2) return {};
  return kernels;
}

Training::Size Training::check_inputs(const stratum_array* q, const stratum_array* k, const stratum_array* v,
                                      const stratum_array* qg, const stratum_array* kg) const {
  const int64_t d = config_.head_dim, r = config_.gate_dim;
  check_.input(q, "q", {kAnyExtent, kAnyExtent, config_.q_heads, d});
  const Size size{q->shape[0], q->shape[1]};
  check_size(size.batch, size.seq_len, config_.q_heads);
  check_.input(k, "k", {size.batch, size.seq_len, config_.kv_heads, d});
  check_.input(v, "v", {size.batch, size.seq_len, config_.kv_heads, d});
  check_.input(qg, "qg", {size.batch, size.seq_len, config_.q_heads, r});
  check_.input(kg, "kg", {size.batch, size.seq_len, config_.kv_heads, r});
  return size;
}

const LoadedKernel& Training::kernel(Operation operation, Size size,
                                     std::initializer_list<const stratum_array*> arrays) const {
  return kernels_.training(operation, size.seq_len, size.batch, describable(arrays));
}

Grid Training::grid(const LoadedKernel& kernel, Size size, int32_t heads) const {
  const int64_t tile = kernel.tile.rows;
  const int64_t tiles = (size.seq_len + tile - 1) / tile;
  const int64_t rows = size.batch * heads;
  const bool persistent = kernel.tile.has_tensor_maps();
  const int64_t resident = persistent ? int64_t{kernels_.multiprocessors()} * kernel.tile.blocks_per_sm : 0;
  // A persistent grid numbers its tiles in 31 bits too, and steps past the last one.
  if (const int64_t most = kMaxGridX - resident; tiles > most / rows) {
    fail(STRATUM_SHAPE_ERROR, "q", "expected at most {} tiles of {} tokens over batch and heads, got {} x {} x {}",
         most, tile, size.batch, heads, tiles);
  }
  if (!persistent) return {.x = static_cast<uint64_t>(tiles * rows)};
  // A cluster's blocks share a tile.
  const int64_t clusters = std::min(tiles * rows, std::max<int64_t>(resident / kernel.row.cluster, 1));
  return {.x = static_cast<uint64_t>(clusters * kernel.row.cluster)};
}

Problem Training::problem(Size size) const {
  return {.batch = static_cast<int32_t>(size.batch),
          .seq_len = static_cast<int32_t>(size.seq_len),
          .q_heads = config_.q_heads,
          .kv_heads = config_.kv_heads,
          .scales = scales_};
}

void Training::forward(const ForwardArrays& arrays, uint64_t stats, cuda::Stream stream) const {
  const observer::Call observed("forward", stream);
  const Size size = check_inputs(arrays.q, arrays.k, arrays.v, arrays.qg, arrays.kg);
  check_.output(arrays.o, "o", {size.batch, size.seq_len, config_.q_heads, config_.head_dim});
  if (size.empty()) return;
  ArrayChecker::apart({{arrays.o, "o"}},
                      {{arrays.q, "q"}, {arrays.k, "k"}, {arrays.v, "v"}, {arrays.qg, "qg"}, {arrays.kg, "kg"}});
  check_address(stats, "stats");
  observer::memory(stats, workspace(size.batch, size.seq_len).stats_bytes, "stats", observer::Use::kWritten);
  const LoadedKernel& forward =
      kernel(Operation::kForward, size, {arrays.q, arrays.k, arrays.v, arrays.qg, arrays.kg, arrays.o});
  const Grid blocks = grid(forward, size, config_.q_heads);
  queue(forward, blocks, stream, forward_params(forward.tile, arrays, stats, problem(size)));
}

void Training::backward(const BackwardArrays& arrays, uint64_t stats, uint64_t delta, cuda::Stream stream) const {
  const observer::Call observed("backward", stream);
  const Size size = check_inputs(arrays.q, arrays.k, arrays.v, arrays.qg, arrays.kg);
  const int64_t d = config_.head_dim, r = config_.gate_dim;
  check_.input(arrays.o, "o", {size.batch, size.seq_len, config_.q_heads, d});
  check_.input(arrays.dout, "dout", {size.batch, size.seq_len, config_.q_heads, d});
  check_.output(arrays.dq, "dq", {size.batch, size.seq_len, config_.q_heads, d});
  check_.output(arrays.dk, "dk", {size.batch, size.seq_len, config_.kv_heads, d});
  check_.output(arrays.dv, "dv", {size.batch, size.seq_len, config_.kv_heads, d});
  check_.output(arrays.dqg, "dqg", {size.batch, size.seq_len, config_.q_heads, r});
  check_.output(arrays.dkg, "dkg", {size.batch, size.seq_len, config_.kv_heads, r});
  if (size.empty()) return;
  ArrayChecker::apart(
      {{arrays.dq, "dq"}, {arrays.dk, "dk"}, {arrays.dv, "dv"}, {arrays.dqg, "dqg"}, {arrays.dkg, "dkg"}},
      {{arrays.q, "q"},
       {arrays.k, "k"},
       {arrays.v, "v"},
       {arrays.qg, "qg"},
       {arrays.kg, "kg"},
       {arrays.o, "o"},
       {arrays.dout, "dout"}});
  check_address(stats, "stats");
  check_address(delta, "delta");
  const Workspace bytes = workspace(size.batch, size.seq_len);
  observer::memory(stats, bytes.stats_bytes, "stats", observer::Use::kRead);
  observer::memory(delta, bytes.delta_bytes, "delta", observer::Use::kWritten);
  if (const auto kernels = fused(size);
      kernels && describable({arrays.q, arrays.k, arrays.v, arrays.qg, arrays.kg, arrays.dout, arrays.dq, arrays.dqg,
                              arrays.dk, arrays.dv, arrays.dkg})) {
    backward_fused(*kernels, size, arrays, stats, delta, stream);
    return;
  }
  const LoadedKernel& dq =
      kernel(Operation::kBackwardDq, size,
             {arrays.q, arrays.k, arrays.v, arrays.qg, arrays.kg, arrays.dout, arrays.dq, arrays.dqg});
  const LoadedKernel& dkv =
      kernel(Operation::kBackwardDkv, size,
             {arrays.q, arrays.k, arrays.v, arrays.qg, arrays.kg, arrays.dout, arrays.dk, arrays.dv, arrays.dkg});
  const Grid dq_grid = grid(dq, size, config_.q_heads);
  const Grid dkv_grid = grid(dkv, size, config_.kv_heads);
  // All that may fail before the first launch: a call does all of its work or none.
  const BackwardParams dq_params = backward_dq_params(dq.tile, arrays, stats, delta, problem(size));
  const BackwardParams dkv_params = backward_dkv_params(dkv.tile, arrays, stats, delta, problem(size));
  queue(dq, dq_grid, stream, dq_params);  // also writes delta, which dkv reads
  queue(dkv, dkv_grid, stream, dkv_params);
}

void Training::backward_fused(const Fused& kernels, Size size, const BackwardArrays& arrays, uint64_t stats,
                              uint64_t workspace, cuda::Stream stream) const {
  const auto params = backward_fused_params(kernels.fused->tile, arrays, stats, workspace, problem(size));
  const Grid query_tiles{.x = static_cast<uint64_t>(kernels.query_tiles)};
  launch(*kernels.delta, query_tiles, stream, params);
  launch(*kernels.fused, {.x = static_cast<uint64_t>(kernels.key_tile_pairs)}, stream, params);
  launch(*kernels.round, query_tiles, stream, params);
}

}  // namespace stratum
