// Is C++, but its assembly is not PTX.
#include "abi/fake.h"

extern "C" __global__ void __launch_bounds__(@block@) @name@(const fake::Params params) {
  asm volatile("not.an.instruction %0;" ::"r"(@threads@));
}
