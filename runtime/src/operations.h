// The operations that engines launch, and what the manifest must say of a kernel so that this library can launch it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/manifest.h"
#include "config.h"

namespace stratum {

enum class Operation {
  kForward,
  kBackwardDq,
  kBackwardDkv,
  kBackwardDelta,
  kBackwardFused,
  kBackwardRound,
  kAppend,
  kPageCopy,
  kPrefill,
  kDecode,
  kDecodeMerge,
};
inline constexpr size_t kOperations = 11;

// The operation's name in the manifest.
std::string_view operation_name(Operation operation);

bool is_training(Operation operation);

// Whether a pack may do without kernels for it: those of one are a faster way to what others do too.
bool is_optional(Operation operation);

// The operations that the modes of a configuration launch. With batch_invariant, decode runs prefill's kernel, so that
// both give the same bits.
std::vector<Operation> operations_of(const Config& config);

// How a kernel divides its work, from the row's tile.
struct KernelTile {
  int32_t rows = 0;  // query or key rows (tile_m), or tokens (append), that a block covers; else 0
  // Of a kernel whose parameters have tensor maps, else 0.
  int32_t box_rows = 0;       // of training: rows of a box on the streamed side (tile_n)
  int32_t blocks_per_sm = 0;  // blocks of its persistent grid on a multiprocessor; 1 where the tile doesn't say

  bool has_tensor_maps() const { return blocks_per_sm != 0; }
};

// The tile of a kernel for the operation. Training and decode have a second parameter struct, with tensor maps; which
// of the two a kernel takes, its row says. Throws Error (PACK_ERROR) if the row has another struct than this library
// passes, or no such tile.
KernelTile kernel_tile(Operation operation, const ManifestKernel& row);

}  // namespace stratum
