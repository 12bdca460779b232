// How much memory serving takes, fixed when the engine is built.
#pragma once

#include <cstdint>

#include "abi/gated.h"
#include "config.h"

namespace stratum {

// What one serving call may hold at most.
struct CallBounds {
  int64_t sequences = 0;
  int64_t items = 0;         // work items over all waves
  int64_t splits = 0;        // of the fused decode, over all waves
  int64_t table_stride = 0;  // pages of one sequence
};

struct ServingSizes {
  int64_t page_bytes = 0;
  int64_t pages = 0;
  int64_t cache_bytes = 0;
  CallBounds bounds;
  int64_t metadata_bytes = 0;  // of one call's metadata, at most
  // Split partials: a slot is one row's partial output and its statistics. None where no decode kernel runs.
  int64_t slot_bytes = 0;
  int64_t partial_slots = 0;
  int64_t partial_bytes = 0;
};

// Splits of a sequence of `tokens` tokens.
constexpr int64_t splits_for(int64_t tokens) { return (tokens + abi::kSplitTokens - 1) / abi::kSplitTokens; }

// How an engine decodes.
enum class DecodeKind {
  kNone,   // not at all, or by prefill's kernel
  kSplit,  // append, split decode, merge
  kFused,  // the same in one launch
};

// Sizes for a configuration with a serving mode. `prefill_tile_m` is the query tile of the prefill kernel, or 0 if none
// is loaded.
//
// The partials get what the largest call could use, but no more than kPartialsTarget or than memory_limit_bytes leaves:
// decode then works in waves of sequences. The least is one sequence of max_seq_len with kMaxDecodeTokens new tokens.
// Throws Error: CONFIG_ERROR naming memory_limit_bytes, with the bytes needed, if the limit is below that; CONFIG_ERROR
// naming max_cached_tokens or max_seq_len if no 64-bit address could reach what they ask for.
ServingSizes size_serving(const Config& config, int32_t prefill_tile_m, DecodeKind decode);

// Partials beyond this many bytes gain nothing: a wave that fills them keeps every multiprocessor busy many times over.
inline constexpr int64_t kPartialsTarget = int64_t{64} << 20;

}  // namespace stratum
