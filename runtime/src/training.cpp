#include "training.h"

#include <algorithm>

#include "error.h"
#include "observer.h"

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

}  // namespace

Training::Training(const Config& config, const Kernels& kernels, bool host_memory)
    : config_(config), kernels_(kernels), check_(config, host_memory), scales_(config) {}

Training::Workspace Training::workspace(int64_t batch, int64_t seq_len) const {
  check_size(batch, seq_len, config_.q_heads);
  const int64_t rows = batch * config_.q_heads * seq_len;
  return {.stats_bytes = rows * int64_t{sizeof(abi::RowStats)}, .delta_bytes = rows * int64_t{sizeof(float)}};
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

const LoadedKernel& Training::kernel(Operation operation, Size size) const {
  return kernels_.training(operation, size.seq_len, size.batch);
}

Grid Training::grid(const LoadedKernel& kernel, Size size, int32_t heads) const {
  const int64_t tile = kernel.block_rows;
  const int64_t tiles = (size.seq_len + tile - 1) / tile;
  const int64_t rows = size.batch * heads;
  if (tiles > kMaxGridX / rows) {
    fail(STRATUM_SHAPE_ERROR, "q", "expected at most {} tiles of {} tokens over batch and heads, got {} x {} x {}",
         kMaxGridX, tile, size.batch, heads, tiles);
  }
  return {.x = static_cast<uint64_t>(tiles * rows)};
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
  const LoadedKernel& forward = kernel(Operation::kForward, size);
  const abi::GatedForwardParams params{
      .q = dense(*arrays.q),
      .k = dense(*arrays.k),
      .v = dense(*arrays.v),
      .qg = dense(*arrays.qg),
      .kg = dense(*arrays.kg),
      .o = dense(*arrays.o),
      .stats = reinterpret_cast<abi::RowStats*>(stats),
      .batch = static_cast<int32_t>(size.batch),
      .seq_len = static_cast<int32_t>(size.seq_len),
      .q_heads = config_.q_heads,
      .kv_heads = config_.kv_heads,
      .softmax_scale_log2 = scales_.softmax_log2,
      .gate_half_scale = scales_.gate_half,
  };
  launch(forward, grid(forward, size, config_.q_heads), stream, params);
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
  const LoadedKernel& dq = kernel(Operation::kBackwardDq, size);
  const LoadedKernel& dkv = kernel(Operation::kBackwardDkv, size);
  const Grid dq_grid = grid(dq, size, config_.q_heads);
  const Grid dkv_grid = grid(dkv, size, config_.kv_heads);
  const abi::GatedBackwardParams params{
      .q = dense(*arrays.q),
      .k = dense(*arrays.k),
      .v = dense(*arrays.v),
      .qg = dense(*arrays.qg),
      .kg = dense(*arrays.kg),
      .o = dense(*arrays.o),
      .dout = dense(*arrays.dout),
      .dq = dense(*arrays.dq),
      .dk = dense(*arrays.dk),
      .dv = dense(*arrays.dv),
      .dqg = dense(*arrays.dqg),
      .dkg = dense(*arrays.dkg),
      .stats = reinterpret_cast<const abi::RowStats*>(stats),
      .delta = reinterpret_cast<float*>(delta),
      .batch = static_cast<int32_t>(size.batch),
      .seq_len = static_cast<int32_t>(size.seq_len),
      .q_heads = config_.q_heads,
      .kv_heads = config_.kv_heads,
      .softmax_scale_log2 = scales_.softmax_log2,
      .gate_half_scale = scales_.gate_half,
      .softmax_scale = scales_.softmax,
      .gate_scale = scales_.gate,
  };
  launch(dq, dq_grid, stream, params);  // also writes delta, which dkv reads
  launch(dkv, dkv_grid, stream, params);
}

}  // namespace stratum
