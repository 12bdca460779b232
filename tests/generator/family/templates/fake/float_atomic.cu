// Adds floats in whatever order the blocks come.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  atomicAdd(params.y, params.x[threadIdx.x + @threads@]);
}
