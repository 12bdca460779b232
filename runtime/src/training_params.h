// The parameter structs of the training kernels, out of a call's arrays: the portable kernels' of strided arrays, and
// those with tensor maps, whose arrays must be describable (tensor_map.h).
#pragma once

#include <cstdint>

#include "abi/gated.h"
#include "abi/gated_sm90a.h"
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

abi::GatedForwardParams forward_params(const ForwardArrays& arrays, uint64_t stats, const Problem& problem);
abi::GatedBackwardParams backward_params(const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                         const Problem& problem);

// `box_rows`: the rows of the kernel's boxes on the side that it streams. Throw Error (DRIVER_ERROR).
abi::GatedForwardSm90aParams forward_sm90a_params(const ForwardArrays& arrays, uint64_t stats, const Problem& problem,
                                                  int32_t box_rows);
abi::GatedBackwardSm90aParams backward_dq_sm90a_params(const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                                       const Problem& problem, int32_t box_rows);
abi::GatedBackwardSm90aParams backward_dkv_sm90a_params(const BackwardArrays& arrays, uint64_t stats, uint64_t delta,
                                                        const Problem& problem, int32_t box_rows);

}  // namespace stratum
