// The kernel that does nothing wrong.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  const fake::index first = (fake::index{blockIdx.x} * @threads@ + threadIdx.x) * @items@;
#pragma unroll
  for (fake::index i = first; i < first + @items@; ++i) {
    if (i < params.count) params.y[i] = params.factor * params.x[i];
  }
}
