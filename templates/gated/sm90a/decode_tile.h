// The shape of the decode kernel: tiles, shared memory, barriers, and which unit of work comes when.
#pragma once

#include "abi/gated_decode_sm90a.h"
#include "device/mbarrier.h"
#include "device/swizzled_tile.h"
#include "gated/portable/online_softmax.h"

namespace stratum::gated::sm90a {

template <class Element_, int kHeadDim, int kGateDim, int kStages>
struct DecodeTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim, stages = kStages;
  static constexpr int rows = abi::kDecodeUnitRows;                   // the n of an MMA
  static constexpr int consumers = 4;                                 // warps, 16 keys of a page each
  static constexpr int producer = consumers, loader = consumers + 1;  // warps
  static constexpr int threads = (consumers + 2) * 32;
  static_assert(consumers * 16 == abi::kPageTokens);

  using K = SwizzledTile<abi::kPageTokens, head_dim>;
  using Kg = SwizzledTile<abi::kPageTokens, gate_dim>;
  static constexpr int v_at = K::bytes, kg_at = 2 * K::bytes;  // in a stage
  static constexpr int stage_bytes = 2 * K::bytes + Kg::bytes;

  // The consumers' results: O [consumer][row][head_dim], rows padded against bank conflicts, then statistics.
  static constexpr int result_stride = head_dim + 4;
  static constexpr int result_bytes = consumers * rows * result_stride * 4;
  static constexpr int results_at = stages * stage_bytes;
  static constexpr int stats_at = results_at + result_bytes;
  // What a unit takes from the call: q and qg [row], rows padded against bank conflicts, the new tokens' k, v, kg
  // [token], and the words of its split. It lies where the results come when the unit has no more use for it; the
  // loader has the next unit's in registers by then.
  static constexpr int q_stride = head_dim * 2 + 16, qg_stride = gate_dim * 2 + 16;  // bytes
  static constexpr int qg_at = rows * q_stride;
  static constexpr int new_at = qg_at + rows * qg_stride;
  static constexpr int token_bytes = (2 * head_dim + gate_dim) * 2;
  static constexpr int split_at = new_at + abi::kMaxDecodeTokens * token_bytes;
  static constexpr int place_bytes = split_at + static_cast<int>(sizeof(abi::DecodeSplit));
  static constexpr int place_at = results_at;
  static_assert(place_bytes <= result_bytes);

  static constexpr int barriers_at = stats_at + consumers * rows * 8;
  static constexpr int shared_bytes = barriers_at + 2 * (stages + 1) * 8;

  // Of a partial.
  static constexpr int vectors = head_dim / 4;  // of 4 columns
  static constexpr int stats_copies = head_dim / abi::kPartialStatsColumns;
  static_assert(abi::kPartialStatsColumns == 16, "one for every 4 vectors");
};

template <class Tile>
struct DecodeBarriers {
  u32 shared;
  __device__ __forceinline__ u32 full(int stage) const { return shared + Tile::barriers_at + stage * 8; }
  __device__ __forceinline__ u32 empty(int stage) const { return full(Tile::stages + stage); }
  __device__ __forceinline__ u32 place_full() const { return full(2 * Tile::stages); }
  __device__ __forceinline__ u32 place_empty() const { return full(2 * Tile::stages + 1); }

  __device__ __forceinline__ void init() const {
#pragma unroll
    for (int i = 0; i < Tile::stages; ++i) {
      mbarrier_init(full(i), 1);
      mbarrier_init(empty(i), Tile::consumers);
    }
    mbarrier_init(place_full(), 1);
    mbarrier_init(place_empty(), Tile::consumers);
    mbarrier_init_fence();
  }
};

// A block's units, (split, kv head, tile of rows), in the order it takes them. Splits come longest first, so blocks are
// dealt units back and forth: who got the longer one of a round gets the shorter one of the next.
template <class Tile>
struct DecodeUnits {
  i32 count, kv_heads, row_tiles, round = 0;

  __device__ __forceinline__ explicit DecodeUnits(const abi::GatedDecodeSm90aParams& params)
      : kv_heads(params.kv_heads), row_tiles((params.rows_stride + Tile::rows - 1) / Tile::rows) {
    count = params.num_splits * kv_heads * row_tiles;
  }
  __device__ __forceinline__ i32 unit() const {
    const i32 blocks = static_cast<i32>(gridDim.x), block = static_cast<i32>(blockIdx.x);
    return round * blocks + ((round & 1) == 0 ? block : blocks - 1 - block);
  }
  __device__ __forceinline__ bool more() const { return unit() < count; }
  // Lane i's word i of the unit's split.
  __device__ __forceinline__ i32 load(const abi::GatedDecodeSm90aParams& params, int lane) const {
    const i32 word = min(unit(), count - 1) / (kv_heads * row_tiles) * 16 + (lane & 15);
    if (params.splits != nullptr) return __ldg(reinterpret_cast<const i32*>(params.splits) + word);
    return reinterpret_cast<const i32*>(params.sequences + params.num_sequences)[word];
  }
};

// What a warp knows of a unit.
template <class Tile>
struct DecodeUnit {
  i32 word;  // lane i has word i of the split
  i32 first_token, num_tokens, cached, split, slots;
  i32 kv_head, first_row, first_key, num_pages;

  __device__ __forceinline__ DecodeUnit(const DecodeUnits<Tile>& units, i32 word_of_lane) : word(word_of_lane) {
    first_token = broadcast(0);
    num_tokens = broadcast(1);
    cached = broadcast(2);
    split = broadcast(3);
    slots = broadcast(4);
    kv_head = units.unit() / units.row_tiles % units.kv_heads;
    first_row = units.unit() % units.row_tiles * Tile::rows;
    first_key = split * abi::kSplitTokens;
    const i32 keys = min(abi::kSplitTokens, cached + num_tokens - first_key);
    num_pages = (keys + abi::kPageTokens - 1) / abi::kPageTokens;
  }
  // Whether new tokens are among the split's keys.
  __device__ __forceinline__ bool has_new() const { return first_key + num_pages * abi::kPageTokens > cached; }
  __device__ __forceinline__ i32 broadcast(int from) const { return __shfl_sync(0xffffffffu, word, from); }
  __device__ __forceinline__ i32 page(int index) const { return broadcast(8 + index); }
};

}  // namespace stratum::gated::sm90a
