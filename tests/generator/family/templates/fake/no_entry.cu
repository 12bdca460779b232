// A function, but no kernel.
#include "abi/fake.h"

extern "C" __device__ float @name@(const fake::Params params) { return params.factor * @threads@; }
