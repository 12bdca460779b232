// Has static shared memory on top of all the dynamic memory that its family asks for.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  __shared__ float buffer[512];
  buffer[threadIdx.x] = params.x[threadIdx.x + @threads@];
  __syncthreads();
  params.y[threadIdx.x] = buffer[@threads@ - 1 - threadIdx.x];
}
