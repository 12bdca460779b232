// Forward over a dense batch for Hopper: o and the softmax statistics that backward needs.
//
//     producer thread    TMA  Q, Qg of each consumer ──▶ their places            (when the last tile's are read)
//                        TMA  K, Kg of key tile j ─────▶ ring of stages          (as stages are handed back)
//                        TMA  V of key tile j + 1 ─────▶ ring of stages
//
//     each consumer      ──┬── S = Q K^T, T = Qg Kg^T of tile j ──┐
//     (64 rows)            │   O += W V of tile j + 1             │ tensor cores
//                          └──────────────────────────────────────┘
//                             p = exp2(S c - M), W = p + p tanh T          meanwhile, as S and T arrive
//                             has a row outgrown its M? then W once more with a new one, O *= rescale
//
// Key tiles are taken from the diagonal to the first: only the first steps need the mask. Consumers take turns in
// issuing products, so that one's softmax runs under another's products; without turns they run in step, and the tensor
// cores idle while all of them exponentiate. A row's bits depend on its own position and data alone: key tiles sit at
// absolute multiples of tile_n and are taken in one order; tiles that lie behind all of a warpgroup's rows are skipped,
// those that hide a row wholly leave its state as it is.
//
// Registers of a consumer thread (D 128, R 64, tile_n 112): O 64, S 56, T 56, W 28, of 240. Tensor cores need
// (2 D + R) tile_n 64 * 2 / 4096 cycles for a step of one consumer, 1120 here; MUFU 2 * tile_n * 64 / 16 = 896.
#pragma once

#include "device/setmaxnreg.h"
#include "gated/sm90a/forward_consumer.h"
#include "gated/sm90a/forward_producer.h"

namespace stratum::gated::sm90a {

// Grid: any number of blocks, which share the query tiles out (tile_order.h). Block: a warpgroup for the producer, then
// the consumers.
template <class Tile>
STRATUM_DEVICE void forward(const abi::GatedForwardSm90aParams& params) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const ForwardBarriers<Tile> barriers{shared + Tile::barriers_at};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // the same for a warp, and known to be
  if (warpgroup == 0) {
    register_decrease<Tile::producer_registers>();
    if (threadIdx.x == 0) ForwardProducer<Tile>{params, shared, barriers, {}, {}}.run();
  } else {
    register_increase<Tile::consumer_registers>();
    ForwardConsumer<Tile>(params, shared, barriers, warpgroup - 1, threadIdx.x).run();
  }
}

}  // namespace stratum::gated::sm90a
