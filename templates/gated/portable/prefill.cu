#include "gated/portable/prefill.h"

using Tile = stratum::gated::AttendTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@,
                                        @query_in_registers@>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@, @blocks_per_sm@)
@name@(const __grid_constant__ stratum::abi::GatedPrefillParams params) {
  stratum::gated::prefill<Tile>(params);
}
