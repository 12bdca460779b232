#include "gated/sm90a/backward_dkv.h"

using Tile = stratum::gated::sm90a::BackwardTile<stratum::@dtype@, @head_dim@, @gate_dim@, @tile_m@, @tile_n@,
                                                 @stages@, @own_places@, @packing@, true, @cluster@>;
static_assert(Tile::shared_bytes == @shared_bytes@ && Tile::threads == @block@, "family.json and the kernel disagree");

#if @cluster@ == 2
#define STRATUM_CLUSTER __cluster_dims__(2, 1, 1)
#else
#define STRATUM_CLUSTER
#endif

extern "C" __global__ void STRATUM_CLUSTER __launch_bounds__(@block@, 1)
@name@(const __grid_constant__ stratum::abi::GatedBackwardSm90aParams params) {
  stratum::gated::sm90a::backward_dkv<Tile>(params);
}
