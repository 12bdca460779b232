// The parameter structs of the training kernels, out of a call's arrays: the portable kernels', of strided arrays, or
// those with tensor maps, whose arrays must be describable (tensor_map.h).
#pragma once

#include <cstdint>
#include <variant>

#include "abi/gated.h"
#include "abi/gated_sm90a.h"
#include "operations.h"
#include "scales.h"
#include "stratum.h"

namespace stratum {

struct ForwardArrays {
  const stratum_array *q, *k, *v, *qg, *kg, *o;
};

struct BackwardArrays {
  const stratum_array *q, *k, *v, *qg, *kg, *o, *dout;
  const stratum_array *dq, *dk, *dv, *dqg, *dkg;
};

// What every training kernel is told beside its arrays.
struct Problem {
  int32_t batch, seq_len, q_heads, kv_heads;
  Scales scales;
};

using ForwardParams = std::variant<abi::GatedForwardParams, abi::GatedForwardSm90aParams>;
using BackwardParams = std::variant<abi::GatedBackwardParams, abi::GatedBackwardSm90aParams>;

// The parameters that a kernel of that tile takes. Throw Error (DRIVER_ERROR) if the driver refuses a tensor map.
ForwardParams forward_params(const KernelTile& tile, const ForwardArrays& arrays, uint64_t stats,
                             const Problem& problem);
BackwardParams backward_dq_params(const KernelTile& tile, const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                  const Problem& problem);
BackwardParams backward_dkv_params(const KernelTile& tile, const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                   const Problem& problem);

// Of the fused backward and of the kernels before and behind it.
abi::GatedBackwardSm90aParams backward_fused_params(const KernelTile& tile, const BackwardArrays& arrays,
                                                    uint64_t stats, uint64_t workspace, const Problem& problem);

}  // namespace stratum
