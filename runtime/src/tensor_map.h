// Tensor maps of a call's arrays [batch, token, head, dim], in the one form that templates/abi/gated_sm90a.h describes.
//
// Maps are encoded for each launch, straight into its parameters, and not kept. Encoding checks and packs some hundred
// bytes: about 0.1 us on the emulator's CPU, beside 0.03 us to look a map up by address, strides, extents and box. Over
// the 17 maps of a backward a cache would save about a microsecond of the host's time, for which it would need a bound
// and a choice of what to drop, since a training step's arrays move.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "abi/tensor_map.h"
#include "stratum.h"

namespace stratum {

// The most rows of a map's box.
inline constexpr int64_t kMaxBoxRows = 256;
// Rows of a box on the side whose rows a block owns, a warpgroup's, and of outputs.
inline constexpr int32_t kOwnedBoxRows = 64;

// Whether a map can describe each of the arrays, which have passed their checks (arrays.h). It cannot if a stride of an
// axis with more than one element is zero, negative, or 2^40 bytes or more. Then a kernel without maps runs in place of
// the one with them: any view that a caller may pass is served. Addresses and strides of other than whole 16 bytes,
// which maps do not have either, have been refused by then; and no extent is beyond 2^32, since positions and batches
// are 32-bit.
bool describable(std::initializer_list<const stratum_array*> arrays);

// The map of a describable array, with boxes of `rows` rows. Throws Error (DRIVER_ERROR).
abi::TensorMap tensor_map(const stratum_array& array, int32_t rows);

}  // namespace stratum
