// Launch bounds that are not the plan's.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@ / 2) @name@(const fake::Params params) { params.y[0] = @threads@; }
