#include "gated/portable/page_copy.h"

extern "C" __global__ void __launch_bounds__(@threads@)
@name@(const __grid_constant__ stratum::abi::GatedPageCopyParams params) {
  stratum::gated::page_copy(params);
}
