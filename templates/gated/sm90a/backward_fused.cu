#include "gated/sm90a/backward_fused.h"

using Tile =
    stratum::gated::sm90a::FusedTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@, @stages@, @packing@>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@, 1)
@name@(const __grid_constant__ stratum::abi::GatedBackwardSm90aParams params) {
  stratum::gated::sm90a::backward_fused<Tile>(params);
}
