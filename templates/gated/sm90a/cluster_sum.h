// The sums of a cluster's two blocks, each of which took half of the steps. Of the 128 keys that both own, block r
// finishes the 64 of consumer r: the other block's consumer r lays its sums down in its own block's shared memory, and
// they are read from there. Always own + other's: the same bits on every run.
#pragma once

#include "gated/sm90a/backward_tile.h"
#include "gated/sm90a/consumer_turns.h"
#include "gated/sm90a/tile_rows.h"

namespace stratum::gated::sm90a {

STRATUM_DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

STRATUM_DEVICE void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// A shared address of this block in the window of block `rank`.
STRATUM_DEVICE u32 map_to_block(u32 address, u32 rank) {
  u32 mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

STRATUM_DEVICE void mbarrier_arrive_cluster(u32 mapped) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapped) : "memory");
}

STRATUM_DEVICE void mbarrier_wait_cluster(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni over;\n"
      "bra.uni again;\n"
      "over:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Sums of one thread, 4 after 4, 128 threads side by side; `at` counts floats.
template <int kCount>
STRATUM_DEVICE void lay_down(u32 place, int at, const float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(place + (at + i) * 512), "f"(sums[i]),
                 "f"(sums[i + 1]), "f"(sums[i + 2]), "f"(sums[i + 3])
                 : "memory");
  }
}

// All threads of a consumer.
template <int kCount>
STRATUM_DEVICE void add_mapped(float (&sums)[kCount], u32 mapped, int at, int consumer) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    float4 other;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(other.x), "=f"(other.y), "=f"(other.z), "=f"(other.w)
                 : "r"(mapped + (at + i) * 512)
                 : "memory");
    sums[i] += other.x;
    sums[i + 1] += other.y;
    sums[i + 2] += other.z;
    sums[i + 3] += other.w;
    if (i % 16 == 12) consumer_sync(consumer);  // keeps ptxas from loading ahead into registers that it doesn't have
  }
}

}  // namespace stratum::gated::sm90a
