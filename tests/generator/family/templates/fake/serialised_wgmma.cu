// Touches the accumulators of a wgmma that is still under way: ptxas then runs one after the other.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  static_assert(@threads@ == 128);
  __shared__ alignas(128) float tiles[1024];
  const unsigned long long descriptor = static_cast<unsigned long long>(__cvta_generic_to_shared(tiles)) >> 4;
  float sums[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "l"(descriptor));
    sums[step] *= params.factor;
  }
  asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) params.y[threadIdx.x * 4 + i] = sums[i];
}
