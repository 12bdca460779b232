// The products of a step, issued by one consumer warpgroup: own rows times the streamed tile for the scores, then
// weights of those times the streamed tile, accumulated.
#pragma once

#include "device/wgmma.h"
#include "gated/sm90a/backward_tile.h"

namespace stratum::gated::sm90a {

// Held as the low halves of the descriptors of the own and of stage 0's first operand.
template <class Tile>
struct BackwardProducts {
  using Element = typename Tile::Element;
  using Own = typename Tile::Own;
  using OwnGate = typename Tile::OwnGate;
  using Stream = typename Tile::Stream;
  using StreamGate = typename Tile::StreamGate;
  static constexpr int score_count = Tile::tile_n / 2;
  using Scores = float[score_count];
  using Weights = u32[Tile::tile_n / 16][4];
  u32 own, stream;

  __device__ __forceinline__ BackwardProducts(u32 shared, u32 own)
      : own(Own::low(own)), stream(Stream::low(shared + Tile::stages_at)) {}

  // The compiler would compute all of a step's descriptors ahead of the loop and have no registers for them.
  __device__ __forceinline__ void forget() { asm volatile("" : "+r"(own)); }

  __device__ __forceinline__ void first(Scores& s, int stage) const { scores<Own, Stream>(s, own, stream + at(stage)); }
  __device__ __forceinline__ void second(Scores& dw, int stage) const {
    scores<Own, Stream>(dw, own + Tile::own_second_at / 16, stream + at(stage) + Tile::stage_second_at / 16);
  }
  __device__ __forceinline__ void gate(Scores& t, int stage) const {
    scores<OwnGate, StreamGate>(t, own + own_gate, stream + at(stage) + stream_gate);
  }

  __device__ __forceinline__ void add_first(float (&sum)[Tile::head_dim / 2], const Weights& w, int stage) const {
    accumulate<Stream>(sum, w, stream + at(stage));
  }
  __device__ __forceinline__ void add_second(float (&sum)[Tile::head_dim / 2], const Weights& w, int stage) const {
    accumulate<Stream>(sum, w, stream + at(stage) + Tile::stage_second_at / 16);
  }
  __device__ __forceinline__ void add_gate(float (&sum)[Tile::gate_dim / 2], const Weights& w, int stage) const {
    accumulate<StreamGate>(sum, w, stream + at(stage) + stream_gate);
  }

 private:
  // From a first operand's low half to its gate's, whose blocks may be smaller (addition modulo 2^32).
  static constexpr u32 own_gate =
      Tile::own_gate_at / 16 + ((u32(OwnGate::block_bytes / 16) - u32(Own::block_bytes / 16)) << 16);
  static constexpr u32 stream_gate =
      Tile::stage_gate_at / 16 + ((u32(StreamGate::block_bytes / 16) - u32(Stream::block_bytes / 16)) << 16);

  STRATUM_DEVICE u32 at(int stage) { return stage * (Tile::stage_bytes / 16); }

  template <class A, class B>
  STRATUM_DEVICE void scores(Scores& c, u32 a, u32 b) {
    Wgmma<Element, Tile::tile_n>::template ss<true>(c, A::descriptor(a), B::descriptor(b));
#pragma unroll
    for (int step = 1; step < A::columns / 16; ++step) {
      Wgmma<Element, Tile::tile_n>::template ss<false>(c, A::descriptor(a + A::along_columns(step)),
                                                       B::descriptor(b + B::along_columns(step)));
    }
  }

  template <class B, int kCount>
  STRATUM_DEVICE void accumulate(float (&sum)[kCount], const Weights& w, u32 b) {
#pragma unroll
    for (int step = 0; step < Tile::tile_n / 16; ++step) {
      Wgmma<Element, B::columns>::template rs<false, 1>(sum, w[step], B::descriptor(b + B::along_rows(step)));
    }
  }
};

}  // namespace stratum::gated::sm90a
