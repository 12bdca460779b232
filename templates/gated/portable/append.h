// Writes the k, v and kg rows of a call's new tokens into the pages of their sequences.
//
// Grid (token groups, kv heads): a block places `tokens` rows of one head.
//
//     thread i < tokens   finds token i's sequence, page and row ──▶ shared memory
//     all threads         copy the rows, consecutive threads consecutive 16-byte vectors
//
// Shared memory: one place a token.
#pragma once

#include "gated/portable/find_sequence.h"
#include "gated/portable/paged_cache.h"

namespace stratum::gated {

template <int kHeadDim, int kGateDim, int kTokens, int kThreads>
struct AppendTile {
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tokens = kTokens;
  static constexpr int threads = kThreads;
  static_assert(tokens <= threads, "a thread finds one token's place");

  using Block = CacheBlock<head_dim, gate_dim>;
  struct Place {
    i64 block;  // in elements from the cache's start
    i32 row;
  };
  static constexpr int shared_bytes = tokens * sizeof(Place);
};

// Copies one array's rows of `count` tokens; `blocks` is the array's place inside the cache's first block.
template <class Tile, int kColumns>
STRATUM_DEVICE void append_rows(u16* blocks, const typename Tile::Place* places, const abi::Packed& source,
                                i32 first_token, int count) {
  constexpr int vectors_per_row = kColumns / 8;
  const u16* rows = static_cast<const u16*>(source.data) + first_token * source.token + blockIdx.y * source.head;
#pragma unroll 4
  for (int i = threadIdx.x; i < count * vectors_per_row; i += Tile::threads) {
    const int token = i / vectors_per_row;
    const int column = i % vectors_per_row * 8;
    const uint4 vector = __ldg(reinterpret_cast<const uint4*>(rows + token * source.token + column));
    const typename Tile::Place place = places[token];
    *reinterpret_cast<uint4*>(blocks + place.block + place.row * kColumns + column) = vector;
  }
}

template <class Tile>
STRATUM_DEVICE void append(const abi::GatedAppendParams& params) {
  using Block = typename Tile::Block;
  extern __shared__ __align__(16) u8 shared_memory[];
  auto* places = reinterpret_cast<typename Tile::Place*>(shared_memory);
  const i32 first_token = static_cast<i32>(blockIdx.x) * Tile::tokens;
  const int count = min(Tile::tokens, params.num_tokens - first_token);
  const int thread = threadIdx.x;

  if (thread < count) {
    const i32 token = first_token + thread;
    const i32 index = find_sequence(params.sequences, params.num_sequences, token);
    const abi::SequenceSlice sequence = params.sequences[index];
    const i32 position = sequence.cached + (token - sequence.first_token);
    const i32 page = sequence_pages(params.block_table, index, params.table_stride)[position / abi::kPageTokens];
    places[thread] = {Block::offset(page, blockIdx.y, params.kv_heads), position % abi::kPageTokens};
  }
  __syncthreads();
  u16* cache = static_cast<u16*>(params.cache);
  append_rows<Tile, Tile::head_dim>(cache + Block::k, places, params.k, first_token, count);
  append_rows<Tile, Tile::head_dim>(cache + Block::v, places, params.v, first_token, count);
  append_rows<Tile, Tile::gate_dim>(cache + Block::kg, places, params.kg, first_token, count);
}

}  // namespace stratum::gated
