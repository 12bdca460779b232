// What a plan fixes of a backward kernel: tile shapes, and where everything lies in shared memory.
//
// Both kernels have one form. A block owns rows of one side, 64 to each consumer warpgroup, and the other side streams
// by in tiles of kTileN rows:
//
//                  own         stream
//   backward_dq    Q, dO, Qg   K, V, Kg     S = Q K^T      dW = dO V^T      T = Qg Kg^T
//   backward_dkv   K, V, Kg    Q, dO, Qg    S^T = K Q^T    dW^T = V dO^T    T^T = Kg Qg^T
//
// so that "first", "second" and "gate" name the same operand in both: scores = first first^T, and so on.
#pragma once

#include "device/mbarrier.h"
#include "device/swizzled_tile.h"
#include "gated/sm90a/backward_pair.h"

namespace stratum::gated::sm90a {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, int kStages, int kOwnPlaces, int kPacking,
          bool kQueries, int kCluster>
struct BackwardTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN, stages = kStages;
  static constexpr int own_places = kOwnPlaces;
  static constexpr Packing packing = static_cast<Packing>(kPacking);
  static constexpr int cluster = kCluster;
  static constexpr int consumers = kTileM / 64;
  static constexpr int threads = 128 * (consumers + 1);

  // What setmaxnreg leaves each thread of the producer's warpgroup and gives each of the consumers': together no more
  // than the launch's, 65536 / threads in units of 8.
  static constexpr int producer_registers = consumers == 3 ? 32 : 24;
  static constexpr int consumer_registers = consumers == 3 ? 160 : 240;

  using Own = SwizzledTile<64, kHeadDim>;
  using OwnGate = SwizzledTile<64, kGateDim>;
  using Stream = SwizzledTile<kTileN, kHeadDim>;
  using StreamGate = SwizzledTile<kTileN, kGateDim>;

  // A consumer's rows: first, second, gate. They become the staging of its results. With two places for them the next
  // tile's rows come while this one's are in use.
  static constexpr int own_second_at = Own::bytes;
  static constexpr int own_gate_at = 2 * Own::bytes;
  static constexpr int own_bytes = own_gate_at + OwnGate::bytes;
  // A stage of the stream: first, second, gate.
  static constexpr int stage_second_at = Stream::bytes;
  static constexpr int stage_gate_at = 2 * Stream::bytes;
  static constexpr int stage_bytes = stage_gate_at + StreamGate::bytes;
  // Where queries stream, their statistics do (query_stats.h).
  static constexpr int stats_warps = kQueries ? 2 : 0;
  static constexpr int stats_bytes = kQueries ? kTileN * 12 + 16 : 0;

  STRATUM_DEVICE int own_at(int place, int consumer) { return (place * consumers + consumer) * own_bytes; }
  static constexpr int stages_at = own_places * consumers * own_bytes;
  static constexpr int stats_at = stages_at + stages * stage_bytes;
  static constexpr int barriers_at = stats_at + stages * stats_bytes;
  static constexpr int shared_bytes = barriers_at + (2 * stages + 2 * own_places * consumers + 2) * 8;
};

// The block's barriers. Full: everything has come. Empty: nobody reads the place any more.
template <class Tile>
struct BackwardBarriers {
  u32 base;
  __device__ __forceinline__ u32 full(int stage) const { return base + 8 * stage; }
  __device__ __forceinline__ u32 empty(int stage) const { return base + 8 * (Tile::stages + stage); }
  __device__ __forceinline__ u32 own_full(int place, int consumer) const {
    return base + 16 * Tile::stages + 16 * (place * Tile::consumers + consumer);
  }
  __device__ __forceinline__ u32 own_empty(int place, int consumer) const { return own_full(place, consumer) + 8; }
  // Of a cluster's two blocks: the other's sums lie ready; the other has read ours.
  __device__ __forceinline__ u32 sums_ready() const { return own_full(Tile::own_places, 0); }
  __device__ __forceinline__ u32 sums_read() const { return sums_ready() + 8; }

  // By one thread. A stage is filled by the thread that starts its copies and, where statistics stream, by their
  // warps, and handed back by each consumer warp; a place of own rows is handed back by one thread of its consumer.
  __device__ __forceinline__ void init() const {
    for (int stage = 0; stage < Tile::stages; ++stage) {
      mbarrier_init(full(stage), 1 + Tile::stats_warps);
      mbarrier_init(empty(stage), 4 * Tile::consumers);
    }
    for (int place = 0; place < Tile::own_places; ++place) {
      for (int consumer = 0; consumer < Tile::consumers; ++consumer) {
        mbarrier_init(own_full(place, consumer), 1);
        mbarrier_init(own_empty(place, consumer), 1);
      }
    }
    mbarrier_init(sums_ready(), 128);
    mbarrier_init(sums_read(), 128);
    mbarrier_init_fence();
  }
};

}  // namespace stratum::gated::sm90a
