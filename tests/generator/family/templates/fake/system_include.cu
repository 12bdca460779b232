// Includes a file that is no input of the kernel.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(@block@) @name@(float* y) { y[0] = @threads@; }
