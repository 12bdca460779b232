#include "gated/sm90a/backward_dq.h"

using Tile = stratum::gated::sm90a::BackwardTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@,
                                                 @stages@, @own_places@, 0, false, 1>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@, 1)
@name@(const __grid_constant__ stratum::abi::GatedBackwardSm90aParams params) {
  stratum::gated::sm90a::backward_dq<Tile>(params);
}
