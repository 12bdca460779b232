// A tensor map: how the tensor memory accelerator (sm_90 and later) finds a box of an array. The host has the driver
// encode it (cuTensorMapEncodeTiled); the kernel only takes its address, which must be a multiple of 64 bytes.
#pragma once

#include "abi/types.h"

namespace stratum::abi {

// The driver's CUtensorMap, whose bits are opaque.
struct alignas(64) TensorMap {
  u64 words[16];
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace stratum::abi
