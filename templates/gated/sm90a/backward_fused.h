// dk, dv, dkg, dq and dqg from one computation of every pair: a block owns 128 keys of one kv head, 64 to each of two
// consumer warpgroups, and walks over the queries that see them, for every query head of the group in turn.
//
//     producer warp 0   the keys' K, V, Kg                ──TMA──▶ their place  (own_full, own_empty)
//                       query tiles Q, dO, Qg, statistics ──TMA──▶ a ring       (full, empty)
//     each consumer
//       a step          dV += W dO, dK += dS Q, dKg += dT Qg of the step before   W, dS, dT in registers
//                       T^T = Kg Qg^T, S^T = K Q^T, dW^T = V dO^T                 both operands in shared memory
//                       p, tanh and W under the other consumer's products
//                       over both consumers' keys: dQ = dS K (consumer 1) or      dS^T, dT^T in shared memory
//                       dQg = dT Kg (consumer 0), of an earlier step
//                       dS, dT, also to shared memory
//                       dQ or dQg, in the next step ──▶ a place of the sums       (sum_full, sum_empty)
//     warps 1 and 2     dQ, dQg ──bulk add──▶ the workspace, in a fixed order     (fused_work.h)
//     each consumer     at the end of its tile: dK, dV, dKg ──▶ the keys' place ──TMA──▶ global
//
// backward_delta.h comes before it, backward_round.h behind.
//
// dS^T and dT^T go from one consumer to the other with the turn (consumer_turns.h). Consumer 0 is the first to come to
// a step, so of the other's gradients it has those of two steps before, consumer 1 those of the step before; and as
// each ends its sums in its step, nobody reads what three steps later overwrite.
//
// Registers a consumer thread (D 64, R 32): dV 32, dK 32, dKg 16, S, T, dW 32 each, dQ 32, W, dS, dT 16 each.
#pragma once

#include "device/setmaxnreg.h"
#include "gated/sm90a/backward_fused_producer.h"
#include "gated/sm90a/backward_products.h"
#include "gated/sm90a/consumer_turns.h"
#include "gated/sm90a/query_tile_stats.h"

namespace stratum::gated::sm90a {

// What consumer 1 sums up for queries: keys, of the gradients one step before.
template <class Tile, int kConsumer>
struct SummedRows {
  using Own = typename Tile::Own;
  static constexpr int own_at = 0;
  static constexpr int lag = 1;
};
// And consumer 0: gates, two steps before.
template <class Tile>
struct SummedRows<Tile, 0> {
  using Own = typename Tile::OwnGate;
  static constexpr int own_at = Tile::own_gate_at;
  static constexpr int lag = 2;
};

// What consumer 0 or 1 makes for the queries of a step: dQg, or dQ.
template <class Tile, int kConsumer>
struct QuerySums : SummedRows<Tile, kConsumer> {
  using Element = typename Tile::Element;
  using Own = typename SummedRows<Tile, kConsumer>::Own;
  static constexpr int own_at = SummedRows<Tile, kConsumer>::own_at;
  using Sums = float[Own::columns / 2];

  // The sum over both consumers' keys of the gradients in `buffer`.
  STRATUM_DEVICE void multiply(Sums& sums, u32 shared, int buffer) {
    const u32 gradient = Tile::Gradient::low(shared + Tile::gradients_at) +
                         (Tile::gradient_at(0, kConsumer == 0, 0) - Tile::gradients_at) / 16 +
                         buffer * (4 * Tile::Gradient::bytes / 16);
    const u32 own = Own::low(shared + own_at);
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      const u64 a = Tile::Gradient::descriptor(gradient + step / 4 * (Tile::Gradient::bytes / 16) +
                                               Tile::Gradient::along_rows(step % 4));
      const u64 b = Own::descriptor(own + step / 4 * (Tile::own_bytes / 16) + Own::along_rows(step % 4));
      if (step == 0) {
        Wgmma<Element, Own::columns>::template ss<true, 1, 1>(sums, a, b);
      } else {
        Wgmma<Element, Own::columns>::template ss<false, 1, 1>(sums, a, b);
      }
    }
  }

  // Lays them into the next place for them.
  STRATUM_DEVICE void hand_over(const Sums& sums, u32 shared, const FusedBarriers<Tile>& barriers,
                                RingPosition<2>& ring) {
    mbarrier_wait(barriers.sum_empty(ring.stage, kConsumer), ring.parity ^ 1);
    const int thread = thread_anew();
    const u32 place =
        shared + (kConsumer == 0 ? Tile::dqg_at(ring.stage) : Tile::dq_at(ring.stage)) + (thread & 127) * 16;
#pragma unroll
    for (int i = 0; i < Own::columns / 2; i += 4) {
      store_shared_16(place + i * 512, {__float_as_uint(sums[i]), __float_as_uint(sums[i + 1]),
                                        __float_as_uint(sums[i + 2]), __float_as_uint(sums[i + 3])});
    }
    fence_proxy_async();
    __syncwarp();
    if ((thread & 31) == 0) mbarrier_arrive(barriers.sum_full(ring.stage, kConsumer));
    ring.advance();
  }
};

// A step's gradients, rows of keys, as A of the products with keys.
template <class Tile>
STRATUM_DEVICE void stage_gradient(u32 place, const u32 (&gradient)[Tile::tile_n / 16][4], int thread) {
  using Gradient = typename Tile::Gradient;
  const int row = (thread >> 5 & 3) * 16 + (thread & 15);
#pragma unroll
  for (int k = 0; k < Tile::tile_n / 16; ++k) {
    StoreOperand<Gradient>::store(place + Gradient::chunk_offset(row, 2 * k + (thread >> 4 & 1)), gradient[k]);
  }
}

template <class Tile, int kConsumer>
STRATUM_DEVICE void consume_pairs(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                  const FusedBarriers<Tile>& barriers) {
  using Element = typename Tile::Element;
  using Arithmetic = PairArithmetic<Tile>;
  using Sums = QuerySums<Tile, kConsumer>;
  constexpr int N = Tile::tile_n;
  constexpr int consumer = kConsumer;
  const ConsumerTurns<2> turns(consumer);
  RingPosition<Tile::stages> ring;
  u32 own_parity = 0;
  RingPosition<2> sums_ring;
  int buffer = 0;  // of the gradients of the next step
  const u32 own = shared + Tile::own_at(0, consumer);
  const auto release = [&](int stage) {
    if ((thread_anew() & 31) == 0) mbarrier_arrive(barriers.empty(stage));
  };

  for (FusedOrder order; order.place < FusedWork<Tile>::count(params); order.advance()) {
    const FusedWork<Tile> work(params, order.place);
    if (work.steps == 0) continue;
    float dk[Tile::head_dim / 2], dv[Tile::head_dim / 2], dkg[Tile::gate_dim / 2];
    clear(dk);
    clear(dv);
    clear(dkg);
    BackwardProducts<Tile> products(shared, own);
    mbarrier_wait(barriers.own_full(0, consumer), own_parity);
    scale_tile<Element, typename Tile::OwnGate>(own + Tile::own_gate_at, params.gate_half_scale, threadIdx.x & 127);
    fence_proxy_async();
    consumer_sync(consumer);

    // Nothing but plain registers crosses the loop's back edge: a step's dV, dK and dKg are issued at the head of the
    // next, and its sums of queries handed over there. kBefore: how many steps come before, at most Sums::lag + 1.
    u32 w[N / 16][4], ds[N / 16][4], dt[N / 16][4];
    typename Sums::Sums sums;
    int previous = 0;
    const auto accumulate = [&] {
      wgmma_fence();
      products.add_second(dv, w, previous);
      products.add_first(dk, ds, previous);
      products.add_gate(dkg, dt, previous);
      wgmma_commit();
    };
    const auto accumulated = [&] {
      hold(dv);
      hold(dk);
      hold(dkg);
      release(previous);
    };
    const auto sum_up = [&](int steps) {
      wgmma_fence();
      Sums::multiply(sums, shared, __shfl_sync(0xffffffffu, Tile::gradients_before(buffer, steps), 0));
      wgmma_commit();
    };
    const auto hand_over = [&] { Sums::hand_over(sums, shared, barriers, sums_ring); };
    const auto step_of = [&]<int kBefore>(int first_query) {
      float s[N / 2], t[N / 2], dw[N / 2];
      products.forget();
      const int stage = __shfl_sync(0xffffffffu, ring.stage, 0);  // so that descriptors are computed once for a warp
      turns.take();
      if constexpr (kBefore > 0) accumulate();
      mbarrier_wait(barriers.full(stage), ring.parity);
      wgmma_fence();
      products.gate(t, stage);
      wgmma_commit();
      if constexpr (kBefore > 0) {
        fence_proxy_async();  // of the gradients of the step before, under the products
        wgmma_wait<1>();
        accumulated();
        wgmma_fence();
      }
      products.first(s, stage);
      wgmma_commit();
      products.second(dw, stage);
      wgmma_commit();
      turns.pass();
      if constexpr (kBefore > Sums::lag) hand_over();
      wgmma_wait<1>();
      hold(t);
      hold(s);

      const u32 stats_place = shared + Tile::stats_at + stage * Tile::stats_bytes;
      const QueryTileStats<Tile> stats(stats_place);
      if (first_query < consumer * 64 + 63) {
        const int thread = thread_anew();
        const int first = first_query + (thread & 3) * 2;
        const int key = consumer * 64 + (thread >> 5 & 3) * 16 + (thread >> 2 & 7);
        mask_queries(s, first, key);
        mask_queries(t, first, key, 0.f);  // for keys behind the end
      }
      if (first_query + N == work.span) {
        mask_missing_queries(s, t, (params.seq_len - 1) % N + 1 - (thread_anew() & 3) * 2);
      }
      if (stats.place.far_out()) {
#pragma unroll
        for (int n = 0; n < N / 8; ++n) {
          const Quad reduce = stats.place.reductions(n, stats.lane);
#pragma unroll
          for (int i = 0; i < 4; ++i) s[4 * n + i] -= reduce.value[i];
        }
      }
      Arithmetic::open_gate(t, dt);
      Arithmetic::template weigh<true>(s, t, w, ds, dt, stats, params.softmax_scale_log2);
      Arithmetic::keep_weights(s, t, w, ds, dt);
      wgmma_wait<0>();
      hold(dw);
      if constexpr (kBefore >= Sums::lag) {
        consumer_sync(consumer);  // all of its warps have fenced their gradients
        sum_up(Sums::lag);
      }
      Arithmetic::differentiate(s, t, dw, w, ds, dt, QueryTileStats<Tile>(stats_place));
      keep_here(ds);
      keep_here(dt);
      stage_gradient<Tile>(shared + Tile::gradient_at(buffer, false, consumer), ds, thread_anew());
      stage_gradient<Tile>(shared + Tile::gradient_at(buffer, true, consumer), dt, thread_anew());
      if constexpr (kBefore >= Sums::lag) {
        wgmma_wait<0>();
        hold(sums);
      }
      previous = stage;
      buffer = Tile::gradients_before(buffer, 2);
    };

    FusedStep<Tile> query(work);
    int steps = work.steps;
    const auto advance = [&] {
      ring.advance();
      query.advance(work);
      --steps;
    };
    const auto step_if_any = [&]<int kBefore> {
      if (steps == 0) return;
      step_of.template operator()<kBefore>(query.first);
      advance();
    };
    step_if_any.template operator()<0>();
    step_if_any.template operator()<1>();
    if constexpr (Sums::lag == 2) step_if_any.template operator()<2>();
#pragma unroll 1
    while (steps > 0) step_if_any.template operator()<Sums::lag + 1>();

    // What is left of the last steps.
    const FusedWork<Tile> done(params, order.place);  // anew: the loop has no registers for all of it
    const auto finish = [&](int before) {
      sum_up(before);
      wgmma_wait<0>();
      hold(sums);
      hand_over();
    };
    turns.take();
    accumulate();
    fence_proxy_async();
    if (done.steps > Sums::lag) hand_over();
    wgmma_wait<0>();
    consumer_sync(consumer);
    accumulated();
    if constexpr (Sums::lag == 2) {
      if (done.steps > 1) finish(2);
      turns.pass();
      turns.take();
    }
    finish(1);
    turns.pass();
    if constexpr (Sums::lag == 1) {
      turns.take();
      turns.pass();
    }
    consumer_sync(consumer);  // consumer 0's warps have all read Kg

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5 & 3;
    const float dk_scale[2] = {0.5f * params.softmax_scale, 0.5f * params.softmax_scale};
    const float dkg_scale[2] = {0.25f * params.gate_scale, 0.25f * params.gate_scale};
    stage_rows<Element, typename Tile::Own>(own, dk, dk_scale, warp, lane);
    stage_rows<Element, typename Tile::Own>(own + Tile::own_second_at, dv, {0.5f, 0.5f}, warp, lane);
    stage_rows<Element, typename Tile::OwnGate>(own + Tile::own_gate_at, dkg, dkg_scale, warp, lane);
    fence_proxy_async();
    consumer_sync(consumer);
    if ((threadIdx.x & 127) == 0) {
      const int first = done.key_tile * Tile::tile_m + consumer * 64;
      store_rows<typename Tile::Own>(params.dk, own, done.kv_head, first, done.batch);
      store_rows<typename Tile::Own>(params.dv, own + Tile::own_second_at, done.kv_head, first, done.batch);
      store_rows<typename Tile::OwnGate>(params.dkg, own + Tile::own_gate_at, done.kv_head, first, done.batch);
      bulk_commit();
      bulk_wait_read<0>();
      mbarrier_arrive(barriers.own_empty(0, consumer));
    }
    own_parity ^= 1;
  }
  if ((threadIdx.x & 127) == 0) bulk_wait_all();
  turns.finish();
}

template <class Tile>
STRATUM_DEVICE void backward_fused(const abi::GatedBackwardSm90aParams& params) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const FusedBarriers<Tile> barriers{shared + Tile::barriers_at};
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
  if (warpgroup == 0) {
    register_decrease<Tile::producer_registers>();
    if (threadIdx.x == 0) produce_fused_stream<Tile>(params, shared, barriers);
    if (threadIdx.x == 32) add_query_sums<Tile>(params, shared, barriers, 0);
    if (threadIdx.x == 64) add_query_sums<Tile>(params, shared, barriers, 1);
  } else {
    register_increase<Tile::consumer_registers>();
    if (warpgroup == 1) {
      consume_pairs<Tile, 0>(params, shared, barriers);
    } else {
      consume_pairs<Tile, 1>(params, shared, barriers);
    }
  }
}

}  // namespace stratum::gated::sm90a
