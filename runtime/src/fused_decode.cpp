#include "fused_decode.h"

#include <algorithm>
#include <cstring>

#include "driver.h"
#include "serving_sizes.h"

namespace stratum {
namespace {

constexpr int64_t kElementBytes = 2;
constexpr int32_t kBoxColumns = 64;  // 128 bytes, the widest swizzle

// Of one of the arrays [kPageTokens][dim] in every block; the first lies at `address`.
abi::TensorMap block_map(uint64_t address, int32_t dim, int64_t blocks, int64_t block_bytes) {
  const auto columns = static_cast<uint32_t>(std::min(dim, kBoxColumns));
  const auto panels = static_cast<uint32_t>(dim) / columns;
  const uint64_t extents[] = {columns, abi::kPageTokens, panels, static_cast<uint64_t>(blocks)};
  const uint64_t strides[] = {static_cast<uint64_t>(dim * kElementBytes),
                              static_cast<uint64_t>(columns * kElementBytes), static_cast<uint64_t>(block_bytes)};
  const uint32_t box[] = {columns, abi::kPageTokens, panels, 1};
  const uint32_t steps[] = {1, 1, 1, 1};
  abi::TensorMap map;
  cuda::driver().tensor_map_encode_tiled(
      &map, cuda::kTensorMapUint16, 4, reinterpret_cast<void*>(address), extents, strides, box, steps,
      cuda::kTensorMapNoInterleave, columns == kBoxColumns ? cuda::kTensorMapSwizzle128 : cuda::kTensorMapSwizzle64,
      cuda::kTensorMapPromote128, cuda::kTensorMapFillZeros);
  return map;
}

abi::DecodeSplit describe(const abi::WorkItem& item, const abi::SequenceSlice& slice, const Sequence& sequence) {
  abi::DecodeSplit split{.first_token = slice.first_token,
                         .num_tokens = slice.num_tokens,
                         .cached = slice.cached,
                         .split = item.index,
                         .slots = slice.first_split + item.index,
                         .padding = {},
                         .pages = {}};
  const auto first = static_cast<size_t>(item.index) * abi::kSplitPages;
  const size_t count = std::min<size_t>(abi::kSplitPages, sequence.pages.size() - first);
  std::copy_n(sequence.pages.begin() + static_cast<std::ptrdiff_t>(first), count, split.pages);
  return split;
}

int32_t keys_of(const abi::DecodeSplit& split) {
  return std::min(abi::kSplitTokens, split.cached + split.num_tokens - split.split * abi::kSplitTokens);
}

}  // namespace

CacheMaps cache_maps(const Config& config, uint64_t cache, int64_t blocks) {
  const int64_t k_bytes = int64_t{abi::kPageTokens} * config.head_dim * kElementBytes;
  const int64_t block_bytes = 2 * k_bytes + int64_t{abi::kPageTokens} * config.gate_dim * kElementBytes;
  return {.k = block_map(cache, config.head_dim, blocks, block_bytes),
          .v = block_map(cache + static_cast<uint64_t>(k_bytes), config.head_dim, blocks, block_bytes),
          .kg = block_map(cache + static_cast<uint64_t>(2 * k_bytes), config.gate_dim, blocks, block_bytes)};
}

std::vector<abi::DecodeSplit> list_splits(const DecodeWork& work, std::span<const abi::SequenceSlice> slices,
                                          std::span<const Sequence* const> sequences) {
  std::vector<abi::DecodeSplit> splits;
  splits.reserve(work.items.size());
  for (const abi::WorkItem& item : work.items) {
    const auto s = static_cast<size_t>(item.sequence);
    splits.push_back(describe(item, slices[s], *sequences[s]));
  }
  for (const Wave& wave : work.waves) {
    const auto first = splits.begin() + wave.first_item;
    std::stable_sort(first, first + wave.num_items,
                     [](const auto& a, const auto& b) { return keys_of(a) > keys_of(b); });
  }
  return splits;
}

bool place_splits(abi::GatedDecodeSm90aParams& params, std::span<const abi::DecodeSplit> splits) {
  const std::span free = std::span(params.sequences).subspan(static_cast<size_t>(params.num_sequences));
  if (splits.size_bytes() > free.size_bytes()) return false;
  std::memcpy(free.data(), splits.data(), splits.size_bytes());
  return true;
}

}  // namespace stratum
