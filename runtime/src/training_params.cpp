#include "training_params.h"

#include "arrays.h"
#include "tensor_map.h"

namespace stratum {
namespace {

template <typename Params>
void set_problem(Params& params, const Problem& problem) {
  params.batch = problem.batch;
  params.seq_len = problem.seq_len;
  params.q_heads = problem.q_heads;
  params.kv_heads = problem.kv_heads;
  params.softmax_scale_log2 = problem.scales.softmax_log2;
  params.gate_half_scale = problem.scales.gate_half;
}

// Of either backward struct.
template <typename Params>
void set_backward(Params& params, uint64_t stats, uint64_t delta, const Problem& problem) {
  set_problem(params, problem);
  params.stats = reinterpret_cast<const abi::RowStats*>(stats);
  params.delta = reinterpret_cast<float*>(delta);
  params.softmax_scale = problem.scales.softmax;
  params.gate_scale = problem.scales.gate;
}

// Of both backward kernels: the maps of their inputs, and what delta is made of.
abi::GatedBackwardSm90aParams backward_sm90a_inputs(const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                                    const Problem& problem, int32_t query_rows, int32_t key_rows) {
  abi::GatedBackwardSm90aParams params{};
  params.q = tensor_map(*arrays.q, query_rows);
  params.k = tensor_map(*arrays.k, key_rows);
  params.v = tensor_map(*arrays.v, key_rows);
  params.qg = tensor_map(*arrays.qg, query_rows);
  params.kg = tensor_map(*arrays.kg, key_rows);
  params.dout = tensor_map(*arrays.dout, query_rows);
  params.o = dense(*arrays.o);
  params.dout_rows = dense(*arrays.dout);
  set_backward(params, stats, delta, problem);
  return params;
}

abi::GatedBackwardSm90aParams dq_sm90a(const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                       const Problem& problem, int32_t box_rows) {
  auto params = backward_sm90a_inputs(arrays, stats, delta, problem, kOwnedBoxRows, box_rows);
  params.dq = tensor_map(*arrays.dq, kOwnedBoxRows);
  params.dqg = tensor_map(*arrays.dqg, kOwnedBoxRows);
  return params;
}

abi::GatedBackwardSm90aParams dkv_sm90a(const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                        const Problem& problem, int32_t box_rows) {
  auto params = backward_sm90a_inputs(arrays, stats, delta, problem, box_rows, kOwnedBoxRows);
  params.dk = tensor_map(*arrays.dk, kOwnedBoxRows);
  params.dv = tensor_map(*arrays.dv, kOwnedBoxRows);
  params.dkg = tensor_map(*arrays.dkg, kOwnedBoxRows);
  return params;
}

abi::GatedBackwardParams backward_portable(const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                           const Problem& problem) {
  abi::GatedBackwardParams params{};
  params.q = dense(*arrays.q);
  params.k = dense(*arrays.k);
  params.v = dense(*arrays.v);
  params.qg = dense(*arrays.qg);
  params.kg = dense(*arrays.kg);
  params.o = dense(*arrays.o);
  params.dout = dense(*arrays.dout);
  params.dq = dense(*arrays.dq);
  params.dk = dense(*arrays.dk);
  params.dv = dense(*arrays.dv);
  params.dqg = dense(*arrays.dqg);
  params.dkg = dense(*arrays.dkg);
  set_backward(params, stats, delta, problem);
  return params;
}

abi::GatedForwardSm90aParams forward_sm90a(const ForwardArrays& arrays, uint64_t stats, const Problem& problem,
                                           int32_t box_rows) {
  abi::GatedForwardSm90aParams params{};
  params.q = tensor_map(*arrays.q, kOwnedBoxRows);
  params.k = tensor_map(*arrays.k, box_rows);
  params.v = tensor_map(*arrays.v, box_rows);
  params.qg = tensor_map(*arrays.qg, kOwnedBoxRows);
  params.kg = tensor_map(*arrays.kg, box_rows);
  params.o = tensor_map(*arrays.o, kOwnedBoxRows);
  params.stats = reinterpret_cast<abi::RowStats*>(stats);
  set_problem(params, problem);
  return params;
}

abi::GatedForwardParams forward_portable(const ForwardArrays& arrays, uint64_t stats, const Problem& problem) {
  abi::GatedForwardParams params{};
  params.q = dense(*arrays.q);
  params.k = dense(*arrays.k);
  params.v = dense(*arrays.v);
  params.qg = dense(*arrays.qg);
  params.kg = dense(*arrays.kg);
  params.o = dense(*arrays.o);
  params.stats = reinterpret_cast<abi::RowStats*>(stats);
  set_problem(params, problem);
  return params;
}

}  // namespace

ForwardParams forward_params(const KernelTile& tile, const ForwardArrays& arrays, uint64_t stats,
                             const Problem& problem) {
  if (tile.has_tensor_maps()) return forward_sm90a(arrays, stats, problem, tile.box_rows);
  return forward_portable(arrays, stats, problem);
}

BackwardParams backward_dq_params(const KernelTile& tile, const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                  const Problem& problem) {
  if (tile.has_tensor_maps()) return dq_sm90a(arrays, stats, delta, problem, tile.box_rows);
  return backward_portable(arrays, stats, delta, problem);
}

BackwardParams backward_dkv_params(const KernelTile& tile, const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                   const Problem& problem) {
  if (tile.has_tensor_maps()) return dkv_sm90a(arrays, stats, delta, problem, tile.box_rows);
  return backward_portable(arrays, stats, delta, problem);
}

abi::GatedBackwardSm90aParams backward_fused_params(const KernelTile& tile, const BackwardArrays& arrays,
                                                    uint64_t stats, uint64_t workspace, const Problem& problem) {
  auto params = backward_sm90a_inputs(arrays, stats, 0, problem, tile.box_rows, kOwnedBoxRows);
  params.dq = tensor_map(*arrays.dq, kOwnedBoxRows);
  params.dqg = tensor_map(*arrays.dqg, kOwnedBoxRows);
  params.dk = tensor_map(*arrays.dk, kOwnedBoxRows);
  params.dv = tensor_map(*arrays.dv, kOwnedBoxRows);
  params.dkg = tensor_map(*arrays.dkg, kOwnedBoxRows);
  params.query_tiles = reinterpret_cast<uint8_t*>(workspace);
  return params;
}

}  // namespace stratum
