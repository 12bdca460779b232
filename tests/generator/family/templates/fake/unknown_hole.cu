// A hole that nothing fills.
extern "C" __global__ void __launch_bounds__(@block@) @name@(float* y) { y[@thread_count@] = @threads@; }
