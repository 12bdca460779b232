// A kernel of a chip's own: parameters with tensor maps, a cluster, a tensor copy. The ABI's headers are the project's own.
#include "abi/gated_sm90a.h"

extern "C" __global__ void __cluster_dims__(@cluster@) __launch_bounds__(@block@, @blocks_per_sm@)
    @name@(const __grid_constant__ stratum::abi::GatedForwardSm90aParams params) {
  extern __shared__ __align__(128) unsigned char shared[];
  const auto target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const unsigned barrier = target + @tile_m@ * @head_dim@ * 2;
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3, %3, %3}], [%2];"
        ::"r"(target), "l"(&params.q), "r"(barrier), "r"(0) : "memory");
  }
  params.stats[blockIdx.x].max = params.softmax_scale_log2;
}
