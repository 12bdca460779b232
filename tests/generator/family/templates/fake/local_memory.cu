// Indexes an array by a value known at run time only, so that the array lies in local memory.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  float table[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) table[i] = params.x[i] * params.factor;
  params.y[threadIdx.x + @threads@] = table[params.count % 32];
}
