// The three products of a key tile, issued by one consumer warpgroup: S = Q K^T, T = Qg Kg^T, O += W V.
#pragma once

#include "device/wgmma.h"
#include "gated/sm90a/forward_tile.h"

namespace stratum::gated::sm90a {

// The operands' descriptors, low halves, for stage 0.
template <class Tile>
struct ForwardProducts {
  using Element = typename Tile::Element;
  u32 q, qg, k, kg, v;

  __device__ __forceinline__ ForwardProducts(u32 shared, int consumer)
      : q(Tile::Q::low(shared + Tile::q_at + consumer * Tile::Q::bytes)),
        qg(Tile::Qg::low(shared + Tile::qg_at + consumer * Tile::Qg::bytes)),
        k(Tile::K::low(shared + Tile::k_at)),
        kg(Tile::Kg::low(shared + Tile::kg_at)),
        v(Tile::K::low(shared + Tile::v_at)) {}

  // Of the tile's first keys, as many as there is room for.
  template <int kCount>
  __device__ __forceinline__ void scores(float (&s)[kCount], int stage) const {
    a_times_b_transposed<typename Tile::Q, typename Tile::K>(s, q, k + stage * (Tile::K::bytes / 16));
  }
  template <int kCount>
  __device__ __forceinline__ void gate_scores(float (&t)[kCount], int stage) const {
    a_times_b_transposed<typename Tile::Qg, typename Tile::Kg>(t, qg, kg + stage * (Tile::Kg::bytes / 16));
  }
  // The weights come from registers, 16 keys after 16.
  __device__ __forceinline__ void output(float (&o)[Tile::head_dim / 2], const u32 (&w)[Tile::tile_n / 16][4],
                                         int stage) const {
    const u32 tile = v + stage * (Tile::K::bytes / 16);
#pragma unroll
    for (int step = 0; step < Tile::tile_n / 16; ++step) {
      Wgmma<Element, Tile::head_dim>::template rs<false, 1>(o, w[step],
                                                            Tile::K::descriptor(tile + Tile::K::along_rows(step)));
    }
    wgmma_commit();
  }

 private:
  template <class A, class B, int kCount>
  STRATUM_DEVICE void a_times_b_transposed(float (&c)[kCount], u32 a, u32 b) {
    Wgmma<Element, 2 * kCount>::template ss<true>(c, A::descriptor(a), B::descriptor(b));
#pragma unroll
    for (int step = 1; step < A::columns / 16; ++step) {
      Wgmma<Element, 2 * kCount>::template ss<false>(c, A::descriptor(a + A::along_columns(step)),
                                                       B::descriptor(b + B::along_columns(step)));
    }
    wgmma_commit();
  }
};

}  // namespace stratum::gated::sm90a
