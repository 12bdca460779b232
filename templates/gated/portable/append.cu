#include "gated/portable/append.h"

using Tile = stratum::gated::AppendTile<@head_dim@, @gate_dim@, @tokens@, @threads@>;
static_assert(Tile::shared_bytes == @shared_bytes@, "family.json and the layout disagree");

extern "C" __global__ void __launch_bounds__(@block@)
@name@(const __grid_constant__ stratum::abi::GatedAppendParams params) {
  stratum::gated::append<Tile>(params);
}
