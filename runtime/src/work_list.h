// The work items of serving launches. Pure host code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "abi/gated.h"

namespace stratum {

// The (sequence, query tile) items of a prefill, those that see the most keys first and otherwise in the call's order.
std::vector<abi::WorkItem> prefill_items(std::span<const abi::SequenceSlice> slices, int32_t tile_m);

// Consecutive sequences of a decode call whose split partials fit into the workspace together.
struct Wave {
  int32_t first_sequence, num_sequences;
  int32_t first_token, num_tokens;
  int64_t first_item;  // in the call's list
  int32_t num_items;
};

struct DecodeWork {
  std::vector<abi::WorkItem> items;  // (sequence, split), wave after wave
  std::vector<Wave> waves;
  int32_t rows_stride;  // rows of an (item, kv head): the largest num_tokens * group
};

// Splits a decode call into waves of at most `sequences` sequences that use at most `slots` partial slots, and sets
// each slice's first_split. Every sequence alone must fit. Where a wave ends does not touch the results: a row's
// partials are merged in split order.
DecodeWork decode_work(std::span<abi::SequenceSlice> slices, int32_t group, int32_t kv_heads, int64_t slots,
                       int32_t sequences = INT32_MAX);

}  // namespace stratum
