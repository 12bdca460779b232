// A kernel whose symbol is not its name.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) another(const fake::Params params) { params.y[0] = @threads@; }
