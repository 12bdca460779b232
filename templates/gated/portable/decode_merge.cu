#include "gated/portable/decode_merge.h"

using Tile = stratum::gated::DecodeMergeTile<stratum::@dtype@, @head_dim@, @warps@>;
static_assert(Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@)
@name@(const __grid_constant__ stratum::abi::GatedDecodeMergeParams params) {
  stratum::gated::decode_merge<Tile>(params);
}
