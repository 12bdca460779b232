// Rows of dense arrays [batch, token, head, dim], and their keys tile by tile.
#pragma once

#include "gated/portable/attend.h"

namespace stratum::gated {

STRATUM_DEVICE Rows dense_rows(const abi::Dense& array, int batch, int head, int token) {
  const u16* data = static_cast<const u16*>(array.data);
  return {data + batch * array.batch + head * array.head + token * array.token, array.token};
}

// The keys of one (batch, kv head) of a dense batch.
struct DenseKeys {
  Rows k, v, kg;
  int num_keys;

  __device__ __forceinline__ KeyRows tile(bool exists, int first) const {
    return {{k.data + first * k.stride, k.stride},
            {v.data + first * v.stride, v.stride},
            {kg.data + first * kg.stride, kg.stride},
            exists ? num_keys - first : 0};
  }
};

}  // namespace stratum::gated
