// Is not C++.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  params.y[threadIdx.x] = undeclared + @threads@;
}
