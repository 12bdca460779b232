// dq, dqg and delta: a block owns tile_m queries of one head, 64 to each consumer warpgroup, and walks over the keys
// that they see.
//
//     producer warp 0   key tiles K, V, Kg  ──TMA──▶ a ring of stages           (full, empty)
//     producer warp 1   the queries' Q, dO, Qg ──TMA──▶ their place             (own_full, own_empty)
//     each consumer     delta = rowsum(dO * O), to registers and to global
//       a step          dQ += dS K, dQg += dT Kg of the step before             dS, dT in registers
//                       T = Qg Kg^T, S = Q K^T, dW = dO V^T                     both operands in shared memory
//                       p, tanh under dW; dS, dT under the other consumer's products
//     its end           dQ, dQg ──stmatrix──▶ the queries' place ──TMA──▶ global
//
// Registers a consumer thread (D 128, R 64, tile_n 64): dQ 64, dQg 32, S, T, dW 32 each, dS, dT 16 each.
#pragma once

#include "device/setmaxnreg.h"
#include "gated/sm90a/backward_dq_producer.h"
#include "gated/sm90a/backward_products.h"
#include "gated/sm90a/causal_mask.h"
#include "gated/sm90a/consumer_turns.h"
#include "gated/sm90a/row_delta.h"

namespace stratum::gated::sm90a {

// A thread's two rows, as PairArithmetic takes them.
struct DqStats {
  QueryStats rows[2];
  __device__ __forceinline__ Quad offsets(int) const {
    return {{rows[0].offset, rows[0].offset, rows[1].offset, rows[1].offset}};
  }
  __device__ __forceinline__ Quad minus_delta2s(int) const {
    return {{rows[0].minus_delta2, rows[0].minus_delta2, rows[1].minus_delta2, rows[1].minus_delta2}};
  }
};

template <class Tile>
STRATUM_DEVICE void consume_keys(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                 const BackwardBarriers<Tile>& barriers, int consumer) {
  using Element = typename Tile::Element;
  using Arithmetic = PairArithmetic<Tile>;
  constexpr int N = Tile::tile_n;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5 & 3;
  const float dq_scale[2] = {0.5f * params.softmax_scale, 0.5f * params.softmax_scale};
  const float dqg_scale[2] = {0.25f * params.gate_scale, 0.25f * params.gate_scale};
  const ConsumerTurns<Tile::consumers> turns(consumer);
  RingPosition<Tile::stages> ring;
  const auto release = [&](int stage) {
    if (lane == 0) mbarrier_arrive(barriers.empty(stage));
  };

  for (TileOrder<1> order; order.place() < QueryWork<Tile>::count(params); ++order.round) {
    const QueryWork<Tile> work(params, order.place());
    const int first = work.first + consumer * 64;
    const int row = first + warp * 16 + (lane >> 2);
    DqStats stats;
    bool far_out = false;
    const i64 head_row = (static_cast<i64>(work.batch) * params.q_heads + work.head) * params.seq_len;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool exists = row + r * 8 < params.seq_len;
      const float delta = row_delta<Element, Tile::head_dim>(params, work.batch, work.head, row + r * 8, lane);
      if (exists && (lane & 3) == 0) params.delta[head_row + row + r * 8] = delta;
      const abi::RowStats stored = exists ? params.stats[head_row + row + r * 8] : kNoRow;
      stats.rows[r] = QueryStats::of(stored, delta, params.softmax_scale_log2);
      far_out |= stats.rows[r].reduce != 0.f;
    }
    far_out = __any_sync(0xffffffffu, far_out);

    float dq[Tile::head_dim / 2], dqg[Tile::gate_dim / 2];
    clear(dq);
    clear(dqg);
    const int place = order.template use<Tile::own_places>();
    const u32 own = shared + Tile::own_at(place, consumer);
    BackwardProducts<Tile> products(shared, own);
    mbarrier_wait(barriers.own_full(place, consumer), order.template parity<Tile::own_places>());
    scale_tile<Element, typename Tile::OwnGate>(own + Tile::own_gate_at, params.gate_half_scale, threadIdx.x & 127);
    fence_proxy_async();
    consumer_sync(consumer);

    // Nothing but plain registers crosses the loop's back edge: a step's dS K and dT Kg are issued at the head of the
    // next. kFirst has no step before it.
    u32 ds[N / 16][4], dt[N / 16][4];
    int previous = 0;
    const auto step_of = [&]<bool kFirst>(int step) {
      float s[N / 2], t[N / 2], dw[N / 2];
      u32 w[N / 16][4];
      products.forget();
      turns.take();
      if constexpr (!kFirst) {
        wgmma_fence();
        products.add_first(dq, ds, previous);
        products.add_gate(dqg, dt, previous);
        wgmma_commit();
      }
      mbarrier_wait(barriers.full(ring.stage), ring.parity);
      wgmma_fence();
      products.gate(t, ring.stage);
      products.first(s, ring.stage);
      wgmma_commit();
      if constexpr (!kFirst) {
        wgmma_wait<1>();
        hold(dq);
        hold(dqg);
        release(previous);
        wgmma_fence();
      }
      products.second(dw, ring.stage);
      wgmma_commit();
      turns.pass();
      wgmma_wait<1>();
      hold(s);
      hold(t);

      if (step * N + N - 1 > first) {
        mask_scores(s, step * N + (lane & 3) * 2, row);
        if (step * N + N > params.seq_len) mask_gate_scores(t, step * N + (lane & 3) * 2, row);
      }
      if (far_out) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) s[i] -= stats.rows[i / 2 % 2].reduce;
      }
      Arithmetic::open_gate(t, dt);
      Arithmetic::template weigh<false>(s, t, w, ds, dt, stats, params.softmax_scale_log2);
      Arithmetic::keep_weights(s, t, w, ds, dt);
      wgmma_wait<0>();
      hold(dw);
      Arithmetic::differentiate(s, t, dw, w, ds, dt, stats);
      previous = ring.stage;
    };

    const int seen = min(work.steps, (first + 63) / N + 1);
    step_of.template operator()<true>(0);
    ring.advance();
#pragma unroll 1
    for (int step = 1; step < seen; ++step) {
      step_of.template operator()<false>(step);
      ring.advance();
    }
    wgmma_fence();
    products.add_first(dq, ds, previous);
    products.add_gate(dqg, dt, previous);
    wgmma_commit();
    wgmma_wait<0>();
    hold(dq);
    hold(dqg);
    release(previous);
    // Of the block's last keys this consumer's queries see none.
#pragma unroll 1
    for (int step = seen; step < work.steps; ++step) {
      turns.take();
      mbarrier_wait(barriers.full(ring.stage), ring.parity);
      release(ring.stage);
      ring.advance();
      turns.pass();
    }

    stage_rows<Element, typename Tile::Own>(own, dq, dq_scale, warp, lane);
    stage_rows<Element, typename Tile::OwnGate>(own + Tile::own_gate_at, dqg, dqg_scale, warp, lane);
    fence_proxy_async();
    consumer_sync(consumer);
    if ((threadIdx.x & 127) == 0) {
      store_rows<typename Tile::Own>(params.dq, own, work.head, first, work.batch);
      store_rows<typename Tile::OwnGate>(params.dqg, own + Tile::own_gate_at, work.head, first, work.batch);
      bulk_commit();
      bulk_wait_read<0>();
      mbarrier_arrive(barriers.own_empty(place, consumer));
    }
  }
  if ((threadIdx.x & 127) == 0) bulk_wait_all();
  turns.finish();
}

template <class Tile>
STRATUM_DEVICE void backward_dq(const abi::GatedBackwardSm90aParams& params) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const BackwardBarriers<Tile> barriers{shared + Tile::barriers_at};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
  if (warpgroup == 0) {
    register_decrease<Tile::producer_registers>();
    if (threadIdx.x == 0) produce_key_stream<Tile>(params, shared, barriers);
    if (threadIdx.x == 32) produce_own_queries<Tile>(params, shared, barriers);
  } else {
    register_increase<Tile::consumer_registers>();
    consume_keys<Tile>(params, shared, barriers, warpgroup - 1);
  }
}

}  // namespace stratum::gated::sm90a
