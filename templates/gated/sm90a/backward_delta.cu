#include "gated/sm90a/backward_delta.h"

extern "C" __global__ void __launch_bounds__(@block@)
@name@(const __grid_constant__ stratum::abi::GatedBackwardSm90aParams params) {
  stratum::gated::sm90a::backward_delta<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_n@>(params);
}
