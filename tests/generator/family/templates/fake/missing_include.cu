// Includes a file that does not exist.
#include "abi/nowhere.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(float* y) { y[0] = @threads@; }
