// What the fused backward needs last: dq and dqg, rounded from the workspace's sums.
#pragma once

#include "abi/gated_sm90a.h"
#include "gated/sm90a/query_tiles.h"
#include "gated/sm90a/tile_rows.h"

namespace stratum::gated::sm90a {

// A thread's accumulators of a tile of sums, as the fused backward's consumer laid them down.
template <int kCount>
STRATUM_DEVICE void load_sums(float (&sums)[kCount], const u8* from, int thread) {
  const float4* four = reinterpret_cast<const float4*>(from) + thread;
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 value = four[i / 4 * 128];
    sums[i] = value.x;
    sums[i + 1] = value.y;
    sums[i + 2] = value.z;
    sums[i + 3] = value.w;
  }
}

// A block of 128 threads does one tile of kQueries queries.
template <class Element, int kHeadDim, int kGateDim, int kQueries>
STRATUM_DEVICE void backward_round(const abi::GatedBackwardSm90aParams& params) {
  using Tiles = QueryTiles<kHeadDim, kGateDim>;
  using Rows = SwizzledTile<kQueries, kHeadDim>;
  using GateRows = SwizzledTile<kQueries, kGateDim>;
  static_assert(Tiles::queries == kQueries, "the workspace's tiles");
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const float dq_scale[2] = {0.5f * params.softmax_scale, 0.5f * params.softmax_scale};
  const float dqg_scale[2] = {0.5f, 0.5f};  // Kg had the other half and the gate's scale in it
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  float dq[kHeadDim / 2], dqg[kGateDim / 2];
  load_sums(dq, Tiles::dq(params, blockIdx.x), thread);
  load_sums(dqg, Tiles::dqg(params, blockIdx.x), thread);
  stage_rows<Element, Rows>(shared, dq, dq_scale, warp, lane);
  stage_rows<Element, GateRows>(shared + Rows::bytes, dqg, dqg_scale, warp, lane);
  fence_proxy_async();
  __syncthreads();
  if (thread == 0) {
    const u32 tiles = Tiles::per_head(params);
    const u32 head = blockIdx.x / tiles;
    const int row = blockIdx.x % tiles * kQueries, q_head = head % u32(params.q_heads),
              batch = head / u32(params.q_heads);
    store_rows<Rows>(params.dq, shared, q_head, row, batch);
    store_rows<GateRows>(params.dqg, shared + Rows::bytes, q_head, row, batch);
    bulk_commit();
    bulk_wait_all();
  }
}

}  // namespace stratum::gated::sm90a
