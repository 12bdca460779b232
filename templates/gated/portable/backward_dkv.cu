#include "gated/portable/backward_dkv.h"

using Tile = stratum::gated::BackwardDkvTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@,
                                             @gate_in_registers@>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@, @blocks_per_sm@)
@name@(const __grid_constant__ stratum::abi::GatedBackwardParams params) {
  stratum::gated::backward_dkv<Tile>(params);
}
