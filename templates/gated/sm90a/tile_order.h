// In which order a persistent block computes tiles.
//
// All tiles stand in one order, the longest first, heads fastest, so that blocks in flight share the stream in L2.
// Rounds of them go to the blocks in alternating directions: whoever had the longest of one round has the shortest of
// the next. The two blocks of a cluster count as one.
#pragma once

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

}  // namespace stratum::gated::sm90a
