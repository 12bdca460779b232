// A template that does not read its tile field.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) { params.y[0] = 1; }
