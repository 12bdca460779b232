// What a plan fixes of the forward kernel: tile shapes, and where everything lies in shared memory.
#pragma once

#include "device/mbarrier.h"
#include "device/swizzled_tile.h"

namespace stratum::gated::sm90a {

// A consumer warpgroup owns 64 query rows of the block's kTileM, and walks over key tiles of kTileN.
template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, int kStages>
struct ForwardTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN, stages = kStages;
  static constexpr int narrow_n = (kTileN / 2 + 15) / 16 * 16;  // of a key tile whose second half is hidden
  static constexpr int consumers = kTileM / 64;
  static constexpr int threads = 128 * (consumers + 1);

  // What setmaxnreg leaves each thread of the producer's warpgroup and gives each of the consumers': together no more
  // than the launch's (65536 / threads, in units of 8), as ptxas is told by launch bounds.
  static constexpr int producer_registers = consumers == 3 ? 32 : 24;
  static constexpr int consumer_registers = consumers == 3 ? 160 : 240;

  using Q = SwizzledTile<64, kHeadDim>;
  using Qg = SwizzledTile<64, kGateDim>;
  using K = SwizzledTile<kTileN, kHeadDim>;
  using Kg = SwizzledTile<kTileN, kGateDim>;

  // Bytes from the start of shared memory: Q, Qg and the output's staging of each consumer; stages of K, V, Kg.
  static constexpr int q_at = 0;
  static constexpr int qg_at = q_at + consumers * Q::bytes;
  static constexpr int o_at = qg_at + consumers * Qg::bytes;
  static constexpr int k_at = o_at + consumers * Q::bytes;
  static constexpr int v_at = k_at + kStages * K::bytes;
  static constexpr int kg_at = v_at + kStages * K::bytes;
  static constexpr int barriers_at = kg_at + kStages * Kg::bytes;
  static constexpr int shared_bytes = barriers_at + (4 * kStages + 2 * consumers) * 8;
};

// The block's barriers. Full: the bytes have landed. Empty: nobody reads the place any more.
template <class Tile>
struct ForwardBarriers {
  u32 base;
  __device__ __forceinline__ u32 k_full(int stage) const { return base + 8 * stage; }
  __device__ __forceinline__ u32 k_empty(int stage) const { return base + 8 * (Tile::stages + stage); }
  __device__ __forceinline__ u32 v_full(int stage) const { return base + 8 * (2 * Tile::stages + stage); }
  __device__ __forceinline__ u32 v_empty(int stage) const { return base + 8 * (3 * Tile::stages + stage); }
  __device__ __forceinline__ u32 q_full(int consumer) const { return base + 8 * (4 * Tile::stages + consumer); }
  __device__ __forceinline__ u32 q_empty(int consumer) const {
    return base + 8 * (4 * Tile::stages + Tile::consumers + consumer);
  }

  // By one thread. Stages and the queries' place are handed back by each warp that reads them.
  __device__ __forceinline__ void init() const {
    for (int stage = 0; stage < Tile::stages; ++stage) {
      mbarrier_init(k_full(stage), 1);
      mbarrier_init(k_empty(stage), 4 * Tile::consumers);
      mbarrier_init(v_full(stage), 1);
      mbarrier_init(v_empty(stage), 4 * Tile::consumers);
    }
    for (int consumer = 0; consumer < Tile::consumers; ++consumer) {
      mbarrier_init(q_full(consumer), 1);
      mbarrier_init(q_empty(consumer), 4);
    }
    mbarrier_init_fence();
  }
};

}  // namespace stratum::gated::sm90a
