// Which tiles a persistent block computes, in which order, and what streams by for each.
//
// All tiles stand in one order, the longest first, heads fastest, so that blocks in flight share the stream in L2.
// Rounds of them go to the blocks in alternating directions: whoever had the longest of one round has the shortest of
// the next. The two blocks of a cluster count as one.
#pragma once

#include "abi/gated_sm90a.h"
#include "device/element.h"

namespace stratum::gated::sm90a {

// The places in that order that this block computes, one round after the other. (There are fewer than 2^31 by far: a
// tile takes 8 KiB.)
template <int kCluster>
struct TileOrder {
  u32 round = 0;
  __device__ __forceinline__ u32 place() const {
    u32 blocks, block;  // read anew rather than kept in registers
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    blocks /= kCluster;
    block /= kCluster;
    return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
  }
  // Which of kPlaces places a round uses in turn, and the parity of a barrier that completes once a use.
  template <int kPlaces>
  __device__ __forceinline__ int use() const {
    return round % kPlaces;
  }
  template <int kPlaces>
  __device__ __forceinline__ u32 parity() const {
    return round / kPlaces & 1;
  }
};

// dq: tile_m queries of one head; the keys they see stream by, in ascending order.
template <class Tile>
struct DqWork {
  int batch, head, kv_head;  // of the own rows; of the stream
  int first, steps;          // first query; key tiles

  STRATUM_DEVICE u32 count(const abi::GatedBackwardSm90aParams& params) {
    return u32((params.seq_len + Tile::tile_m - 1) / Tile::tile_m) * params.batch * params.q_heads;
  }
  __device__ __forceinline__ DqWork(const abi::GatedBackwardSm90aParams& params, u32 place) {
    const u32 heads = params.batch * params.q_heads;
    first = ((params.seq_len + Tile::tile_m - 1) / Tile::tile_m - 1 - place / heads) * Tile::tile_m;
    batch = place % heads / u32(params.q_heads);
    head = place % heads % u32(params.q_heads);
    kv_head = head / (params.q_heads / params.kv_heads);
    steps = (min(first + Tile::tile_m, params.seq_len) + Tile::tile_n - 1) / Tile::tile_n;
  }
};

// dk dv dkg: tile_m keys of one kv head; the queries that see them stream by, of one head of the group after the other,
// each from the last to the first. Of a cluster's two blocks one takes the even steps, one the odd ones.
template <class Tile>
struct DkvWork {
  int batch, kv_head;
  int first;      // first key
  int low, span;  // the stream's queries: first and number, in whole tiles
  int steps;      // this block's

  STRATUM_DEVICE u32 count(const abi::GatedBackwardSm90aParams& params) {
    return u32((params.seq_len + Tile::tile_m - 1) / Tile::tile_m) * params.batch * params.kv_heads;
  }
  __device__ __forceinline__ DkvWork(const abi::GatedBackwardSm90aParams& params, u32 place, int rank) {
    const u32 heads = params.batch * params.kv_heads;
    first = place / heads * Tile::tile_m;
    batch = place % heads / u32(params.kv_heads);
    kv_head = place % heads % u32(params.kv_heads);
    const int first_tile = first / Tile::tile_n;
    const int tiles = (params.seq_len - 1) / Tile::tile_n + 1 - first_tile;
    low = first_tile * Tile::tile_n;
    span = tiles * Tile::tile_n;
    steps = (tiles * (params.q_heads / params.kv_heads) - rank + Tile::cluster - 1) / Tile::cluster;
  }
};

// The first query of a step's tile, counted from anywhere, and its head.
template <class Tile>
struct QueryStep {
  int first, head;

  __device__ __forceinline__ QueryStep(int low, int span, int head, int rank)
      : first(low + span - Tile::tile_n), head(head) {
    back(rank, low, span);
  }
  __device__ __forceinline__ void advance(int low, int span) { back(Tile::cluster, low, span); }

 private:
  __device__ __forceinline__ void back(int tiles, int low, int span) {
    first -= tiles * Tile::tile_n;
    while (first < low) {
      first += span;
      ++head;
    }
  }
};

}  // namespace stratum::gated::sm90a
