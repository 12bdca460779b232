// Adds integers, whose sum does not depend on the order.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  atomicAdd(reinterpret_cast<int*>(params.y), static_cast<int>(params.x[threadIdx.x + @threads@]));
}
