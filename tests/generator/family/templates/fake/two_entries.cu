// Two kernels in one translation unit.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) { params.y[0] = @threads@; }

extern "C" __global__ void second(const fake::Params params) { params.y[0] = 2; }
