// Decode's loader: one warp that brings what units take from the call, a unit ahead of the consumers, and writes the
// new tokens into the cache.
#pragma once

#include "gated/portable/paged_cache.h"
#include "gated/sm90a/decode_tile.h"

namespace stratum::gated::sm90a {

STRATUM_DEVICE void store_shared_32(u32 address, i32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Rows of kColumns elements of one array into a place: chunk i of the warp's is row i / chunks of a row.
template <int kRows, int kColumns>
struct RowChunks {
  static constexpr int chunks = kColumns / 8;  // of 16 bytes, in a row
  static constexpr int lane_chunks = (kRows * chunks + 31) / 32;
  uint4 values[lane_chunks];

  // from(row) is where a row starts, or null for zeros.
  template <class From>
  __device__ __forceinline__ void load(int lane, From from) {
#pragma unroll
    for (int i = 0; i < lane_chunks; ++i) {
      const int chunk = i * 32 + lane;
      const u16* row = chunk < kRows * chunks ? from(chunk / chunks) : nullptr;
      values[i] = {0, 0, 0, 0};
      if (row != nullptr) values[i] = __ldg(reinterpret_cast<const uint4*>(row) + chunk % chunks);
    }
  }

  // Rows `stride` bytes apart, in shared memory.
  __device__ __forceinline__ void store_shared(int lane, u32 rows, int stride) const {
#pragma unroll
    for (int i = 0; i < lane_chunks; ++i) {
      const int chunk = i * 32 + lane;
      if (chunk < kRows * chunks) store_shared_16(rows + chunk / chunks * stride + chunk % chunks * 16, values[i]);
    }
  }

  // to(row) is where a row goes in global memory, or null.
  template <class To>
  __device__ __forceinline__ void store(int lane, To to) const {
#pragma unroll
    for (int i = 0; i < lane_chunks; ++i) {
      const int chunk = i * 32 + lane;
      u16* row = chunk < kRows * chunks ? to(chunk / chunks) : nullptr;
      if (row != nullptr) reinterpret_cast<uint4*>(row)[chunk % chunks] = values[i];
    }
  }
};

// Where a unit's new tokens go in the cache.
template <class Tile>
struct NewTokenBlocks {
  using Block = CacheBlock<Tile::head_dim, Tile::gate_dim>;
  u16* blocks[2];  // of the first new token among the split's keys, and the next page's
  i32 first;       // position of the call's first new token in the split; negative if it is in an earlier one
  i32 first_page, num_tokens;

  __device__ __forceinline__ NewTokenBlocks(const abi::GatedDecodeSm90aParams& params, const DecodeUnit<Tile>& unit)
      : first(unit.cached - unit.first_key), num_tokens(unit.num_tokens) {
    first_page = max(first, 0) / abi::kPageTokens;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const i32 page = unit.page(min(first_page + i, abi::kSplitPages - 1));
      blocks[i] = static_cast<u16*>(params.cache) + Block::offset(page, unit.kv_head, params.kv_heads);
    }
  }

  // A token's row of the array at `array_at` (elements) in its block; null if it isn't among the split's keys.
  template <int kColumns>
  __device__ __forceinline__ u16* row(int token, int array_at) const {
    const i32 at = first + token;
    if (token >= num_tokens || at < 0 || at >= abi::kSplitTokens) return nullptr;
    u16* block = at / abi::kPageTokens == first_page ? blocks[0] : blocks[1];
    return block + array_at + at % abi::kPageTokens * kColumns;
  }
};

// The new tokens' rows of one array, on their way into the place and, if the unit is its head's first tile of rows,
// into the cache.
template <class Tile, int kColumns>
struct NewRows {
  RowChunks<abi::kMaxDecodeTokens, kColumns> chunks;

  __device__ __forceinline__ void load(const abi::Packed& source, const DecodeUnit<Tile>& unit, int lane) {
    const u16* rows =
        static_cast<const u16*>(source.data) + unit.first_token * source.token + unit.kv_head * source.head;
    chunks.load(lane, [&](int token) { return token < unit.num_tokens ? rows + token * source.token : nullptr; });
  }
  __device__ __forceinline__ void store(u32 rows, const NewTokenBlocks<Tile>& blocks, int array_at,
                                        const DecodeUnit<Tile>& unit, int lane) const {
    chunks.store_shared(lane, rows, Tile::token_bytes);
    if (unit.first_row != 0) return;
    chunks.store(lane, [&](int token) { return blocks.template row<kColumns>(token, array_at); });
  }
};

template <class Tile>
STRATUM_DEVICE void load_call(const abi::GatedDecodeSm90aParams& params, u32 shared, int lane) {
  using Block = CacheBlock<Tile::head_dim, Tile::gate_dim>;
  constexpr int D = Tile::head_dim, R = Tile::gate_dim;
  const DecodeBarriers<Tile> barriers{shared};
  const i32 group = params.q_heads / params.kv_heads;
  const u32 place = shared + Tile::place_at, new_rows = place + Tile::new_at;
  RingPosition<1> ring;
  DecodeUnits<Tile> units(params);
  i32 word = units.load(params, lane);
  while (units.more()) {
    const DecodeUnit<Tile> unit(units, word);
    ++units.round;
    word = units.load(params, lane);
    const auto row_of = [&](const abi::Packed& source) {
      return [&rows = source, &unit, group](int row) -> const u16* {
        const i32 at = unit.first_row + row;
        if (at >= unit.num_tokens * group) return nullptr;
        return static_cast<const u16*>(rows.data) + (unit.first_token + at / group) * rows.token +
               (unit.kv_head * group + at % group) * rows.head;
      };
    };
    RowChunks<Tile::rows, D> q;
    RowChunks<Tile::rows, R> qg;
    NewRows<Tile, D> k, v;
    NewRows<Tile, R> kg;
    q.load(lane, row_of(params.q));
    qg.load(lane, row_of(params.qg));
    if (unit.has_new()) {
      k.load(params.k, unit, lane);
      v.load(params.v, unit, lane);
      kg.load(params.kg, unit, lane);
    }
    mbarrier_wait(barriers.place_empty(), ring.parity ^ 1);
    if (lane < 16) store_shared_32(place + Tile::split_at + lane * 4, unit.word);
    q.store_shared(lane, place, Tile::q_stride);
    qg.store_shared(lane, place + Tile::qg_at, Tile::qg_stride);
    if (unit.has_new()) {
      const NewTokenBlocks<Tile> blocks(params, unit);
      k.store(new_rows, blocks, Block::k, unit, lane);
      v.store(new_rows + D * 2, blocks, Block::v, unit, lane);
      kg.store(new_rows + D * 4, blocks, Block::kg, unit, lane);
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(barriers.place_full());
    ring.advance();
  }
}

}  // namespace stratum::gated::sm90a
