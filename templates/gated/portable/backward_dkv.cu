#if @split_roles@
#include "gated/portable/backward_dkv_split.h"

using Tile = stratum::gated::BackwardDkvSplitTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@,
                                                  @stages@, @hand_over@, @key_in_registers@, @value_in_registers@,
                                                  @gate_in_registers@>;
#else
#include "gated/portable/backward_dkv.h"

using Tile = stratum::gated::BackwardDkvTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@,
                                             @gate_in_registers@>;
#endif
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@, @blocks_per_sm@)
@name@(const __grid_constant__ stratum::abi::GatedBackwardParams params) {
#if @split_roles@
  stratum::gated::backward_dkv_split<Tile>(params);
#else
  stratum::gated::backward_dkv<Tile>(params);
#endif
}
