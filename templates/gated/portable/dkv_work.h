// What the two roles of backward_dkv_split.h share: the layout of a block's shared memory, its walk over the queries, and
// the barriers and buffers by which they hand over.
#pragma once

#include "gated/portable/backward_dkv.h"

namespace stratum::gated {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, int kStages, int kHandOver,
          bool kKeyInRegisters, bool kValueInRegisters, bool kGateInRegisters>
struct BackwardDkvSplitTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN;
  static constexpr int stages = kStages, hand_over = kHandOver;
  static constexpr bool key_in_registers = kKeyInRegisters, value_in_registers = kValueInRegisters;
  static constexpr bool gate_in_registers = kGateInRegisters;
  static constexpr int threads = 256, role_threads = 128;
  static_assert(tile_m == 64, "two warps of 32 keys");
  static_assert(tile_n % 32 == 0 && tile_n <= role_threads, "each half of the queries is whole 16-row blocks");
  static_assert(head_dim % 32 == 0 && gate_dim % 32 == 0, "each half of the columns is whole 16-column blocks");
  static_assert(gate_dim <= 2 * head_dim, "a warp's rows of K are its scratch for half the columns of dkg");
  static_assert(stages >= 3, "a stage is scored, one accumulated, one loaded");
  static_assert(hand_over == 1 || hand_over == 2, "barriers are numbered for two buffers");

  using K = SharedTile<tile_m, head_dim>;
  using Kg = SharedTile<tile_m, gate_dim>;
  using Q = SharedTile<tile_n, head_dim>;
  using Qg = SharedTile<tile_n, gate_dim>;
  using Weights = SharedTile<tile_m, tile_n>;  // W, dS or dT
  static constexpr int key_bytes = 2 * K::bytes + Kg::bytes;
  static constexpr int stats_bytes = tile_n * 12;  // RowStats, then delta
  static constexpr int stage_bytes = 2 * Q::bytes + Qg::bytes + stats_bytes;
  static constexpr int buffer_bytes = 3 * Weights::bytes;
  static constexpr int shared_bytes = key_bytes + stages * stage_bytes + hand_over * buffer_bytes;
  static_assert(stage_bytes % 16 == 0, "stages are 16-byte aligned");

  // The copying of query tiles, by the accumulating warps: backward_dkv.h's, with their number of threads.
  struct Loader {
    using Q = BackwardDkvSplitTile::Q;
    using Qg = BackwardDkvSplitTile::Qg;
    static constexpr int tile_n = kTileN, threads = role_threads;
  };
};

// Which barrier says what: full for each of W, dS and dT of hand-over buffer 0 or 1, free for those of a sole buffer
// (of two, step i + 2 finds its own free: loaded[i + 2] says that step i has been accumulated), loaded for even and odd
// steps.
enum HandOver { kW = 0, kDs = 1, kDt = 2 };
STRATUM_DEVICE int full_barrier(HandOver what, int buffer) { return 1 + what + buffer * 3; }
STRATUM_DEVICE int free_barrier(HandOver what) { return 7 + what; }
STRATUM_DEVICE int loaded_barrier(int step) { return 10 + (step & 1); }

// A ring of equal places in shared memory.
template <int kPlaces, int kBytes>
struct Ring {
  u32 first, offset = 0;
  __device__ __forceinline__ u32 address() const { return first + offset; }
  __device__ __forceinline__ int index() const { return kPlaces == 1 ? 0 : static_cast<int>(offset / kBytes); }
  __device__ __forceinline__ void advance() {
    if constexpr (kPlaces > 1) offset = offset == (kPlaces - 1) * kBytes ? 0 : offset + kBytes;
  }
};

// What a block works on: its keys, and its steps, query tiles first_tile ... last_tile - 1 of each head of the group.
struct DkvWork {
  int batch, kv_head, first, first_tile, last_tile, steps;
};

// The query rows of one step after the other.
template <int kTileN>
struct QueryStream {
  int tile, head;
  QueryTile rows;

  __device__ __forceinline__ QueryStream(const abi::GatedBackwardParams& params, const DkvWork& work)
      : tile(work.first_tile), head(work.kv_head * (params.q_heads / params.kv_heads)) {
    rows = query_tile(params, work.batch, head, tile * kTileN, true);
  }

  // Past the last step `exists` is false and no row valid.
  __device__ __forceinline__ void advance(const abi::GatedBackwardParams& params, const DkvWork& work, bool exists) {
    if (++tile == work.last_tile) {
      tile = work.first_tile;
      rows = query_tile(params, work.batch, ++head, tile * kTileN, exists);
    } else {
      rows.q.data += kTileN * rows.q.stride;
      rows.dout.data += kTileN * rows.dout.stride;
      rows.qg.data += kTileN * rows.qg.stride;
      rows.stats += kTileN;
      rows.delta += kTileN;
      rows.valid = exists ? rows.valid - kTileN : 0;
    }
  }
};

}  // namespace stratum::gated
