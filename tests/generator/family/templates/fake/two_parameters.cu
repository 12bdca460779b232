// Parameters that are not one struct.
extern "C" __global__ void __launch_bounds__(@block@) @name@(float* y, float x) { y[threadIdx.x + @threads@] = x; }
