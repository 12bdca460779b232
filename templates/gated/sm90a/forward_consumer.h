// One consumer warpgroup of the forward: 64 query rows at a time, from their queries to their output.
#pragma once

#include "abi/gated_sm90a.h"
#include "gated/sm90a/causal_mask.h"
#include "gated/sm90a/consumer_turns.h"
#include "gated/sm90a/forward_products.h"
#include "gated/sm90a/query_work.h"
#include "gated/sm90a/row_softmax.h"
#include "gated/sm90a/tile_rows.h"

namespace stratum::gated::sm90a {

template <class Tile>
struct ForwardConsumer {
  using Element = typename Tile::Element;
  static constexpr int N = Tile::tile_n, D = Tile::head_dim;

  const abi::GatedForwardSm90aParams& params;
  u32 shared;
  ForwardBarriers<Tile> barriers;
  int consumer;  // of the block's
  int warp;      // of the warpgroup's four
  int lane;
  ForwardProducts<Tile> products;
  ConsumerTurns<Tile::consumers> turns;
  RingPosition<Tile::stages> k, v;

  __device__ __forceinline__ ForwardConsumer(const abi::GatedForwardSm90aParams& params, u32 shared,
                                             ForwardBarriers<Tile> barriers, int consumer, u32 thread)
      : params(params),
        shared(shared),
        barriers(barriers),
        consumer(consumer),
        warp(static_cast<int>(thread / 32 % 4)),
        lane(static_cast<int>(thread % 32)),
        products(shared, consumer),
        turns(consumer) {}

  __device__ __forceinline__ void together() const { consumer_sync(consumer); }
  __device__ __forceinline__ bool is_leader() const { return warp == 0 && lane == 0; }

  __device__ __forceinline__ void release(u32 empty) const {
    __syncwarp();
    if (lane == 0) mbarrier_arrive(empty);
  }
  __device__ __forceinline__ void release_keys() {
    release(barriers.k_empty(k.stage));
    k.advance();
  }
  __device__ __forceinline__ void release_values() {
    release(barriers.v_empty(v.stage));
    v.advance();
  }

  __device__ __forceinline__ void release_queries() const { release(barriers.q_empty(consumer)); }

  STRATUM_DEVICE void scale_rows(float (&o)[D / 2], const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] *= factor[i / 2 % 2];
  }

  // The last key tile, where there is nothing to overlap with yet: its first kKeys keys, behind which these rows see
  // none. It sets the rows' maximum.
  template <int kKeys>
  __device__ __forceinline__ void first_step(int key_tile, int row, u32 (&w)[N / 16][4], RowSoftmax& softmax) {
    float s[kKeys / 2], t[kKeys / 2], rescale[2], offset[2], part[2];
    mbarrier_wait(barriers.k_full(k.stage), k.parity);
    wgmma_fence();
    products.gate_scores(t, k.stage);
    products.scores(s, k.stage);
    wgmma_wait<0>();
    hold(t);
    hold(s);
    release_keys();
    if (key_tile == 0) release_queries();
    const int first_key = key_tile * N + 2 * (lane & 3);
    mask_scores(s, first_key, row);
    if (key_tile * N + kKeys > params.seq_len) mask_gate_scores(t, first_key, row);
    softmax.raise({true, true}, rescale, offset, s, params.softmax_scale_log2);
    u32 seen[kKeys / 16][4];
    RowSoftmax::weigh<Element>(seen, part, s, t, offset, params.softmax_scale_log2);
    softmax.add(part);
#pragma unroll
    for (int i = 0; i < N / 4; ++i) w[i / 4][i % 4] = i < kKeys / 4 ? seen[i / 4 % (kKeys / 16)][i % 4] : 0;
  }

  // Another key tile: its scores and the output of the tile before are under way while this thread does the gate, then
  // the softmax. kMasked: the maximum is looked for, whether rows outgrow it or not. kLast: key tile 0.
  template <bool kMasked, bool kLast>
  __device__ __forceinline__ void step(int key_tile, int row, float (&o)[D / 2], u32 (&w)[N / 16][4],
                                       RowSoftmax& softmax) {
    const float scale = params.softmax_scale_log2;
    float s[N / 2], t[N / 2], rescale[2], offset[2], part[2];
    mbarrier_wait(barriers.k_full(k.stage), k.parity);
    mbarrier_wait(barriers.v_full(v.stage), v.parity);
    turns.take();
    wgmma_fence();
    products.gate_scores(t, k.stage);
    products.scores(s, k.stage);
    products.output(o, w, v.stage);
    turns.pass();
    wgmma_wait<1>();
    hold(t);
    hold(s);
    release_keys();
    if constexpr (kLast) release_queries();
    if constexpr (kMasked) {
      mask_scores(s, key_tile * N + 2 * (lane & 3), row);
      softmax.raise({true, true}, rescale, offset, s, scale);
    } else {
      softmax.offsets(offset, scale);
    }
    wgmma_wait<0>();
    hold(o);
    release_values();
    RowSoftmax::weigh<Element>(w, part, s, t, offset, scale);
    if constexpr (kMasked) {
      scale_rows(o, rescale);
    } else if (softmax.outgrown(part, offset, rescale, s, scale)) {
      RowSoftmax::weigh<Element>(w, part, s, t, offset, scale);
      scale_rows(o, rescale);
    }
    softmax.add(part);
  }

  // A key tile that none of these rows sees.
  __device__ __forceinline__ void skip_tile() {
    mbarrier_wait(barriers.k_full(k.stage), k.parity);
    release_keys();
    mbarrier_wait(barriers.v_full(v.stage), v.parity);
    release_values();
  }
  __device__ __forceinline__ void skip_step() {
    skip_tile();
    turns.take();
    turns.pass();
  }

  // Divides by the sums and stores what lies inside the sequence.
  __device__ __forceinline__ void store(const QueryWork<Tile>& work, int first_row, const float (&o)[D / 2],
                                        const float (&factor)[2]) const {
    const u32 staging = shared + Tile::o_at + consumer * Tile::Q::bytes;
    if (is_leader()) bulk_wait_read<0>();
    together();  // nobody reads the last output any more
    stage_rows<Element, typename Tile::Q>(staging, o, factor, warp, lane);
    fence_proxy_async();
    together();
    if (is_leader()) {
      store_rows<typename Tile::Q>(params.o, staging, work.head, first_row, work.batch);
      bulk_commit();
    }
  }

  __device__ __forceinline__ void store_stats(const QueryWork<Tile>& work, int row, const RowSoftmax& softmax,
                                              const float (&sum)[2]) const {
    if ((lane & 3) != 0) return;
    abi::RowStats* stats = params.stats + (static_cast<i64>(work.batch) * params.q_heads + work.head) * params.seq_len;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row + 8 * r < params.seq_len) stats[row + 8 * r] = {softmax.max[r], fast_log2(sum[r])};
    }
  }

  __device__ __forceinline__ void attend(const QueryWork<Tile>& work, u32 parity) {
    const int first_row = work.first + 64 * consumer;
    const int row = first_row + 16 * warp + (lane >> 2);
    int key_tile = work.steps - 1;
    mbarrier_wait(barriers.q_full(consumer), parity);
    if (first_row >= params.seq_len) {  // the sequence's last tile, none of whose rows are this warpgroup's
      for (; key_tile > 0; --key_tile) skip_step();
      skip_tile();  // a first step has no turn
      release_queries();
      return;
    }
    scale_tile<Element, typename Tile::Qg>(shared + Tile::qg_at + consumer * Tile::Qg::bytes, params.gate_half_scale,
                                           warp * 32 + lane);
    fence_proxy_async();
    together();
    for (; key_tile * N > first_row + 63; --key_tile) skip_step();

    float o[D / 2];
    u32 w[N / 16][4];
    RowSoftmax softmax;
    if (first_row + 64 - key_tile * N <= Tile::narrow_n) {
      first_step<Tile::narrow_n>(key_tile, row, w, softmax);
    } else {
      first_step<N>(key_tile, row, w, softmax);
    }
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] = 0.f;
    --key_tile;
#pragma unroll 1
    for (; key_tile > 0 && key_tile * N + N - 1 > first_row; --key_tile) {
      step<true, false>(key_tile, row, o, w, softmax);
    }
#pragma unroll 1
    for (; key_tile > 0; --key_tile) step<false, false>(key_tile, row, o, w, softmax);
    if (key_tile == 0) step<true, true>(key_tile, row, o, w, softmax);

    mbarrier_wait(barriers.v_full(v.stage), v.parity);
    wgmma_fence();
    products.output(o, w, v.stage);
    const float sum[2] = {quad_sum(softmax.sum[0]), quad_sum(softmax.sum[1])};
    const float factor[2] = {__fdividef(0.5f, sum[0]), __fdividef(0.5f, sum[1])};
    store_stats(work, row, softmax, sum);
    wgmma_wait<0>();
    hold(o);
    release_values();
    store(work, first_row, o, factor);
  }

  __device__ __forceinline__ void run() {
    for (TileOrder<1> order; order.place() < QueryWork<Tile>::count(params); ++order.round) {
      attend(QueryWork<Tile>(params, order.place()), order.template parity<1>());
    }
    if (is_leader()) bulk_wait_all();
    turns.finish();
  }
};

}  // namespace stratum::gated::sm90a
