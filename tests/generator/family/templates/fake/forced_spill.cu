// Keeps more values alive than its launch bounds leave registers: plans give it 1024 threads.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  static_assert(@threads@ == 1024);
  float values[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) values[i] = params.x[i * params.count + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) params.y[i * params.count + threadIdx.x] = values[i] * values[95 - i] + values[(i * 7) % 96];
}
