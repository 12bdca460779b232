#include "gated/sm90a/forward.h"

using Tile = stratum::gated::sm90a::ForwardTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@, @stages@>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@, 1)
@name@(const __grid_constant__ stratum::abi::GatedForwardSm90aParams params) {
  stratum::gated::sm90a::forward<Tile>(params);
}
