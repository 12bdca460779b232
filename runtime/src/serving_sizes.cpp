#include "serving_sizes.h"

#include <algorithm>

#include "abi/gated_decode_sm90a.h"
#include "call_metadata.h"
#include "error.h"
#include "sequences.h"

namespace stratum {
namespace {

constexpr int64_t kElementBytes = 2;
constexpr int64_t kMaxBytes = int64_t{1} << 61;  // of one buffer, so that sums over all of them stay within 64 bits

// `count` things of `size` bytes. Throws Error naming `key`, which asks for so many, if that is beyond kMaxBytes.
int64_t bytes_of(int64_t count, int64_t size, const char* key) {
  if (count > kMaxBytes / size) {
    fail(STRATUM_CONFIG_ERROR, key, "expected at most {} bytes, got {} times {}", kMaxBytes, count, size);
  }
  return count * size;
}

CallBounds bound_calls(const Config& config, int64_t pages, int32_t prefill_tile_m, DecodeKind decode) {
  CallBounds bounds{.sequences = config.max_sequences, .table_stride = pages_for(config.max_seq_len)};
  if (prefill_tile_m > 0) {
    // Every new token takes a place of its own in the pool, and each sequence ends in at most one partial tile.
    const int64_t tiles_a_sequence = (config.max_seq_len + prefill_tile_m - 1) / prefill_tile_m;
    const int64_t tiles_in_pool = pages * abi::kPageTokens / prefill_tile_m + config.max_sequences;
    bounds.items = std::min(config.max_sequences * tiles_a_sequence, tiles_in_pool);
  }
  const int64_t splits = config.max_sequences * splits_for(config.max_seq_len);
  if (decode == DecodeKind::kSplit) bounds.items = std::max(bounds.items, splits);
  if (decode == DecodeKind::kFused) bounds.splits = splits;
  return bounds;
}

}  // namespace

ServingSizes size_serving(const Config& config, int32_t prefill_tile_m, DecodeKind decode) {
  const bool splits_decode = decode != DecodeKind::kNone;
  ServingSizes sizes;
  const int64_t token_bytes = config.kv_heads * (2 * int64_t{config.head_dim} + config.gate_dim) * kElementBytes;
  sizes.page_bytes = abi::kPageTokens * token_bytes;
  sizes.pages = pages_bound(config.max_cached_tokens, config.max_sequences);
  sizes.cache_bytes = bytes_of(sizes.pages, sizes.page_bytes, "max_cached_tokens");
  sizes.bounds = bound_calls(config, sizes.pages, prefill_tile_m, decode);
  sizes.metadata_bytes = CallMetadata::bound(sizes.bounds);

  int64_t least_slots = 0, least_partials = 0;
  if (splits_decode) {
    const int64_t stats = decode == DecodeKind::kFused ? config.head_dim / abi::kPartialStatsColumns : 1;
    sizes.slot_bytes = config.head_dim * sizeof(float) + stats * sizeof(abi::PartialStats);
    least_slots = splits_for(config.max_seq_len) * config.kv_heads * abi::kMaxDecodeTokens * config.group();
    least_partials = bytes_of(least_slots, sizes.slot_bytes, "max_seq_len");
    sizes.partial_slots =
        std::min(config.max_sequences * least_slots, std::max(least_slots, kPartialsTarget / sizes.slot_bytes));
  }
  if (config.memory_limit_bytes) {
    const int64_t needed = sizes.cache_bytes + sizes.metadata_bytes + least_partials;
    if (needed > *config.memory_limit_bytes) {
      fail(STRATUM_CONFIG_ERROR, "memory_limit_bytes",
           "expected at least {} for these modes (cache {}, partials {}, metadata {}), got {}", needed,
           sizes.cache_bytes, least_partials, sizes.metadata_bytes, *config.memory_limit_bytes);
    }
    if (splits_decode) {
      const int64_t left = *config.memory_limit_bytes - sizes.cache_bytes - sizes.metadata_bytes;
      sizes.partial_slots = std::min(sizes.partial_slots, left / sizes.slot_bytes);
    }
  }
  sizes.partial_bytes = sizes.partial_slots * sizes.slot_bytes;
  return sizes;
}

}  // namespace stratum
