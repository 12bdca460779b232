// Copies whole pages inside the cache, before a sequence writes to a page that it shares.
//
// Grid (copies, blocks that share a page). Each thread moves 16-byte vectors, a grid stride apart within its page; a
// few of them at a time, so that their loads overlap. No shared memory.
#pragma once

#include "abi/gated.h"
#include "device/element.h"

namespace stratum::gated {

STRATUM_DEVICE void page_copy(const abi::GatedPageCopyParams& params) {
  const abi::PageCopy copy = params.copies[blockIdx.x];
  u8* cache = static_cast<u8*>(params.cache);
  const uint4* source = reinterpret_cast<const uint4*>(cache + copy.source * params.page_bytes);
  uint4* target = reinterpret_cast<uint4*>(cache + copy.target * params.page_bytes);
  const i64 vectors = params.page_bytes / 16;
  const i64 stride = static_cast<i64>(gridDim.y) * blockDim.x;

  constexpr int batch = 4;
  i64 i = static_cast<i64>(blockIdx.y) * blockDim.x + threadIdx.x;
  for (; i + (batch - 1) * stride < vectors; i += batch * stride) {
    uint4 moved[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) moved[j] = source[i + j * stride];
#pragma unroll
    for (int j = 0; j < batch; ++j) target[i + j * stride] = moved[j];
  }
  for (; i < vectors; i += stride) target[i] = source[i];
}

}  // namespace stratum::gated
