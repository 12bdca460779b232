// delta of a query: rowsum(dO * O).
#pragma once

#include "abi/gated_sm90a.h"
#include "device/math.h"

namespace stratum::gated::sm90a {

// delta of query `row`, the same in the four lanes that share it.
template <class Element, int kHeadDim>
STRATUM_DEVICE float row_delta(const abi::GatedBackwardSm90aParams& params, int batch, int head, int row, int lane) {
  float sum = 0.f;
  if (row < params.seq_len) {
    const auto row_of = [&](const abi::Dense& array) {
      const u16* data = static_cast<const u16*>(array.data);
      return reinterpret_cast<const uint4*>(data + batch * array.batch + head * array.head + row * array.token) +
             (lane & 3);
    };
    const uint4* o = row_of(params.o);
    const uint4* dout = row_of(params.dout_rows);
#pragma unroll
    for (int i = 0; i < kHeadDim / 32; ++i) {
      const uint4 a = o[4 * i], b = dout[4 * i];
      const u32 left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum = fmaf(Element::low(left[j]), Element::low(right[j]), sum);
        sum = fmaf(Element::high(left[j]), Element::high(right[j]), sum);
      }
    }
  }
  return quad_sum(sum);
}

}  // namespace stratum::gated::sm90a
