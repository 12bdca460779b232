// Prefill: the new tokens of several sequences attend to everything cached, themselves included. The pipeline is
// attend.h's; keys, values and gate keys come from the pages that `append` has filled on the same stream, so a prefix,
// an earlier chunk and the new tokens are one and the same to it.
#pragma once

#include "gated/portable/attend.h"
#include "gated/portable/paged_cache.h"

namespace stratum::gated {

// The keys of one (sequence, kv head), tile by tile in ascending order. The page of the tile after the one asked for is
// looked up ahead of time, so that its latency hides behind a whole tile's products.
template <class Tile>
struct PagedKeys {
  static_assert(abi::kPageTokens % Tile::tile_n == 0, "a key tile lies in one page");
  using Block = CacheBlock<Tile::head_dim, Tile::gate_dim>;
  const u16* cache;
  const i32* pages;
  int kv_head, kv_heads, num_keys;
  i32 page;  // of the next tile to be asked for

  __device__ __forceinline__ PagedKeys(const abi::GatedPrefillParams& params, int sequence, int kv_head, int num_keys)
      : cache(static_cast<const u16*>(params.cache)),
        pages(sequence_pages(params.block_table, sequence, params.table_stride)),
        kv_head(kv_head),
        kv_heads(params.kv_heads),
        num_keys(num_keys),
        page(pages[0]) {}

  __device__ __forceinline__ KeyRows tile(bool exists, int first) {
    const u16* block = cache + Block::offset(page, kv_head, kv_heads);
    const int row = first % abi::kPageTokens;
    page = pages[min(first + Tile::tile_n, num_keys - 1) / abi::kPageTokens];
    return {{block + Block::k + row * Tile::head_dim, Tile::head_dim},
            {block + Block::v + row * Tile::head_dim, Tile::head_dim},
            {block + Block::kg + row * Tile::gate_dim, Tile::gate_dim},
            exists ? num_keys - first : 0};
  }
};

STRATUM_DEVICE Rows packed_rows(const abi::Packed& array, i64 token, int head) {
  return {static_cast<const u16*>(array.data) + token * array.token + head * array.head, array.token};
}

// Grid: work items x q_heads in one dimension, heads fastest, so that blocks in flight share pages in L2.
template <class Tile>
STRATUM_DEVICE void prefill(const abi::GatedPrefillParams& params) {
  extern __shared__ __align__(16) u8 shared_memory[];
  const abi::WorkItem item = params.items[blockIdx.x / params.q_heads];
  const int head = static_cast<int>(blockIdx.x % params.q_heads);
  const int kv_head = head / (params.q_heads / params.kv_heads);
  const abi::SequenceSlice sequence = params.sequences[item.sequence];
  const int first = item.index * Tile::tile_m;
  const i64 token = static_cast<i64>(sequence.first_token) + first;

  const PagedKeys<Tile> keys(params, item.sequence, kv_head, sequence.cached + sequence.num_tokens);
  const QueryRows query{
      .q = packed_rows(params.q, token, head),
      .qg = packed_rows(params.qg, token, head),
      .valid = min(Tile::tile_m, sequence.num_tokens - first),
      .first_position = sequence.cached + first,
      .num_keys = sequence.cached + sequence.num_tokens,
  };
  const Scales scales{params.softmax_scale_log2, params.gate_half_scale};
  attend<Tile>(shared_address(shared_memory), keys, query, scales, [&] {
    const Rows o = packed_rows(params.o, token, head);
    return ResultRows{const_cast<u16*>(o.data), o.stride, nullptr};
  });
}

}  // namespace stratum::gated
