#include "gated/sm90a/decode.h"

using Tile = stratum::gated::sm90a::DecodeTile<stratum::@dtype@, @head_dim@, @gate_dim@, @stages@>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

extern "C" __global__ void __launch_bounds__(@block@, @blocks_per_sm@)
@name@(const __grid_constant__ stratum::abi::GatedDecodeSm90aParams params) {
  stratum::gated::sm90a::decode<Tile>(params);
}
