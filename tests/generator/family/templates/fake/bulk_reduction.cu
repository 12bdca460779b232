// Adds floats to global memory in bulk: allowed to plans that order it.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  __shared__ float buffer[@threads@];
  buffer[threadIdx.x] = params.x[threadIdx.x];
  __syncthreads();
  asm volatile("fence.proxy.async;" ::: "memory");
  const unsigned source = static_cast<unsigned>(__cvta_generic_to_shared(buffer));
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(params.y), "r"(source),
                 "r"(@threads@ * 4)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
