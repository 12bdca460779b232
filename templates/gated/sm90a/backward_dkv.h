// dk, dv and dkg: a block owns tile_m keys of one kv head, 64 to each consumer warpgroup, and walks over the queries
// that see them, for every query head of the group in turn, so the group's sum is formed in registers in a fixed order.
//
//     producer warp 0   query tiles Q, dO, Qg  ──TMA──▶ a ring of stages        (full, empty)
//     producer warp 1   the keys' K, V, Kg     ──TMA──▶ their place             (own_full, own_empty)
//     warps 2 and 3     their statistics and delta ──▶ the same stages          (full, empty)
//     each consumer
//       a step          dK += dS Q, dKg += dT Qg of the step before             dS, dT in registers
//                       T^T = Kg Qg^T, S^T = K Q^T                              both operands in shared memory
//                       p, tanh and W under the other consumer's products
//                       dW^T = V dO^T, dV += W dO                               W in registers
//                       dS, dT under dV and the other's products
//     its end           dK, dV, dKg ──stmatrix──▶ the keys' place ──TMA──▶ global
//
// With cluster 2 two blocks share the steps of one key tile (cluster_sum.h): short sequences have fewer key tiles than
// the GPU has SMs.
//
// Registers a consumer thread (D 128, R 64, tile_n 48): dK 64, dV 64, dKg 32, S, T or dW 24 each, W, dS, dT 12 each.
#pragma once

#include "device/setmaxnreg.h"
#include "gated/sm90a/backward_dkv_producer.h"
#include "gated/sm90a/backward_products.h"
#include "gated/sm90a/cluster_sum.h"
#include "gated/sm90a/consumer_turns.h"
#include "gated/sm90a/query_tile_stats.h"

namespace stratum::gated::sm90a {

template <class Tile>
STRATUM_DEVICE void consume_queries(const abi::GatedBackwardSm90aParams& params, u32 shared,
                                    const BackwardBarriers<Tile>& barriers, int consumer, int rank) {
  using Element = typename Tile::Element;
  using Arithmetic = PairArithmetic<Tile>;
  constexpr int N = Tile::tile_n;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5 & 3;
  const float dk_scale[2] = {0.5f * params.softmax_scale, 0.5f * params.softmax_scale};
  const float dkg_scale[2] = {0.25f * params.gate_scale, 0.25f * params.gate_scale};
  const ConsumerTurns<Tile::consumers> turns(consumer);
  RingPosition<Tile::stages> ring;
  const auto release = [&](int stage) {
    if ((thread_anew() & 31) == 0) mbarrier_arrive(barriers.empty(stage));
  };

  for (TileOrder<Tile::cluster> order; order.place() < DkvWork<Tile>::count(params); ++order.round) {
    float dk[Tile::head_dim / 2], dv[Tile::head_dim / 2], dkg[Tile::gate_dim / 2];
    clear(dk);
    clear(dv);
    clear(dkg);
    const int place = order.template use<Tile::own_places>();
    const u32 own = shared + Tile::own_at(place, consumer);
    BackwardProducts<Tile> products(shared, own);
    mbarrier_wait(barriers.own_full(place, consumer), order.template parity<Tile::own_places>());
    scale_tile<Element, typename Tile::OwnGate>(own + Tile::own_gate_at, params.gate_half_scale, threadIdx.x & 127);
    fence_proxy_async();
    consumer_sync(consumer);

    // Nothing but plain registers crosses the loop's back edge: a step's dS Q and dT Qg are issued at the head of the
    // next. kFirst has no step before it.
    u32 ds[N / 16][4], dt[N / 16][4];
    int previous = 0;
    const auto accumulate = [&] {
      wgmma_fence();
      products.add_first(dk, ds, previous);
      products.add_gate(dkg, dt, previous);
      wgmma_commit();
    };
    const auto accumulated = [&] {
      hold(dk);
      hold(dkg);
      release(previous);
    };
    const auto step_of = [&]<bool kFirst>(int first_query, bool is_last_tile) {
      float s[N / 2], t[N / 2], dw[N / 2];
      u32 w[N / 16][4];
      products.forget();
      const int stage = __shfl_sync(0xffffffffu, ring.stage, 0);  // so that descriptors are computed once for a warp
      turns.take();
      if constexpr (!kFirst) accumulate();
      mbarrier_wait(barriers.full(stage), ring.parity);
      const u32 stats_place = shared + Tile::stats_at + stage * Tile::stats_bytes;
      const QueryTileStats<Tile> stats(stats_place);
      wgmma_fence();
      products.gate(t, stage);
      wgmma_commit();
      if constexpr (!kFirst) {
        wgmma_wait<1>();
        accumulated();
        wgmma_fence();
      }
      products.first(s, stage);
      wgmma_commit();
      turns.pass();
      wgmma_wait<0>();
      hold(t);
      hold(s);

      if (first_query < consumer * 64 + 63) {
        const int thread = thread_anew();
        mask_queries(s, first_query + (thread & 3) * 2, consumer * 64 + (thread >> 5 & 3) * 16 + (thread >> 2 & 7));
      }
      if (is_last_tile && params.seq_len % N != 0) {
        mask_missing_queries(s, t, params.seq_len % N - (thread_anew() & 3) * 2);
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
      wgmma_fence();
      products.second(dw, stage);
      wgmma_commit();
      products.add_second(dv, w, stage);
      wgmma_commit();
      wgmma_wait<1>();
      hold(dw);
      Arithmetic::differentiate(s, t, dw, w, ds, dt, QueryTileStats<Tile>(stats_place));
      keep_here(ds);
      keep_here(dt);
      wgmma_wait<0>();
      hold(dv);
      previous = stage;
    };
    // A tile whose queries all come before this consumer's keys.
    const auto skip = [&] {
      turns.take();
      mbarrier_wait(barriers.full(ring.stage), ring.parity);
      release(ring.stage);
      turns.pass();
    };

    // Queries are counted from the block's first key.
    const DkvWork<Tile> work(params, order.place(), rank);
    const int low = Tile::tile_m % N == 0 ? 0 : work.low - work.first;
    QueryStep<Tile> query(low, work.span, 0, rank);
    int steps = work.steps;
    const auto step_here = [&]<bool kFirst> {
      step_of.template operator()<kFirst>(query.first, query.first + N == low + work.span);
    };
    const auto sees = [&] { return query.first + N - 1 >= consumer * 64; };
    const auto advance = [&] {
      ring.advance();
      query.advance(low, work.span);
      --steps;
    };
    for (; steps > 0 && !sees(); advance()) skip();
    if (steps > 0) {
      step_here.template operator()<true>();
      advance();
#pragma unroll 1
      for (; steps > 0; advance()) {
        if (sees()) {
          step_here.template operator()<false>();
        } else {
          skip();
        }
      }
      accumulate();
      wgmma_wait<0>();
      accumulated();
    }

    if constexpr (Tile::cluster == 2) {
      consumers_sync();  // the sums take the place of both consumers' keys
      const u32 sums = shared + Tile::own_at(place, 0) + (threadIdx.x & 127) * 16;
      const u32 other = rank ^ 1;
      if (consumer != rank) {
        lay_down(sums, 0, dk);
        lay_down(sums, Tile::head_dim / 2, dv);
        lay_down(sums, Tile::head_dim, dkg);
        mbarrier_arrive_cluster(map_to_block(barriers.sums_ready(), other));
      } else {
        mbarrier_wait_cluster(barriers.sums_ready(), order.template parity<1>());
        const u32 mapped = map_to_block(sums, other);
        add_mapped(dk, mapped, 0, consumer);
        add_mapped(dv, mapped, Tile::head_dim / 2, consumer);
        add_mapped(dkg, mapped, Tile::head_dim, consumer);
        mbarrier_arrive_cluster(map_to_block(barriers.sums_read(), other));
      }
      mbarrier_wait_cluster(barriers.sums_read(), order.template parity<1>());
    }
    if (Tile::cluster == 1 || consumer == rank) {
      stage_rows<Element, typename Tile::Own>(own, dk, dk_scale, warp, lane);
      stage_rows<Element, typename Tile::Own>(own + Tile::own_second_at, dv, {0.5f, 0.5f}, warp, lane);
      stage_rows<Element, typename Tile::OwnGate>(own + Tile::own_gate_at, dkg, dkg_scale, warp, lane);
      fence_proxy_async();
    }
    consumer_sync(consumer);
    if ((threadIdx.x & 127) == 0) {
      if (Tile::cluster == 1 || consumer == rank) {
        const DkvWork<Tile> stored(params, order.place(), rank);
        const int first = stored.first + consumer * 64;
        store_rows<typename Tile::Own>(params.dk, own, stored.kv_head, first, stored.batch);
        store_rows<typename Tile::Own>(params.dv, own + Tile::own_second_at, stored.kv_head, first, stored.batch);
        store_rows<typename Tile::OwnGate>(params.dkg, own + Tile::own_gate_at, stored.kv_head, first, stored.batch);
        bulk_commit();
        bulk_wait_read<0>();
      }
      mbarrier_arrive(barriers.own_empty(place, consumer));
    }
  }
  if ((threadIdx.x & 127) == 0) bulk_wait_all();
  turns.finish();
}

template <class Tile>
STRATUM_DEVICE void backward_dkv(const abi::GatedBackwardSm90aParams& params) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const u32 shared = shared_address(shared_memory);
  const BackwardBarriers<Tile> barriers{shared + Tile::barriers_at};
  if (threadIdx.x == 0) barriers.init();
  int rank = 0;
  if constexpr (Tile::cluster == 2) {
    rank = cluster_rank();
    cluster_sync();
  } else {
    __syncthreads();
  }
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
  if (warpgroup == 0) {
    register_decrease<Tile::producer_registers>();
    if (threadIdx.x == 0) produce_query_stream<Tile>(params, shared, barriers, rank);
    if (threadIdx.x == 32) produce_own_keys<Tile>(params, shared, barriers, rank);
    if (threadIdx.x >= 64) produce_query_stats<Tile>(params, shared, barriers, threadIdx.x - 64, rank);
  } else {
    register_increase<Tile::consumer_registers>();
    consume_queries<Tile>(params, shared, barriers, warpgroup - 1, rank);
  }
}

}  // namespace stratum::gated::sm90a
