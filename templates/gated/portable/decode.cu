#include "gated/portable/decode.h"

using Tile =
    stratum::gated::DecodeTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@, @warps@, @stages@>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@)
@name@(const __grid_constant__ stratum::abi::GatedDecodeParams params) {
  stratum::gated::decode<Tile>(params);
}
