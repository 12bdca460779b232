// Kernel parameters of the gated family's decode for sm_90a: append, attention and merge in one launch.
//
// The cache is the one of gated.h. Its k, v and kg are read through tensor maps of 16-bit elements, in which a block
// (page, kv head) is one step of the outermost axis:
//
//   dims     {min(64, dim), kPageTokens, dim / 64 or 1, pages * kv_heads}, innermost first
//   box      {min(64, dim), kPageTokens, dim / 64 or 1, 1}: all of a block's k, or v, or kg
//   swizzle  128 bytes for boxes of 64 columns, 64 bytes for boxes of 32
//
// Partials are a row's sum over one split: partial_o[slot][head_dim], not normalised, and partial_stats[slot][head_dim
// / kPartialStatsColumns], copies of one and the same. Between launches every word of both holds kPartialMark, bits
// that no result has. A word that isn't the mark any more has been written: that is how the blocks hand their partials
// to each other, without a counter. Who takes a partial puts the mark back.
//
// Grid: x only, persistent, launched cooperatively, since blocks wait for each other's partials.
#pragma once

#include "abi/gated.h"
#include "abi/tensor_map.h"

namespace stratum::abi {

// A NaN that no instruction makes: they all make 0x7fffffff.
inline constexpr u32 kPartialMark = 0xffffffffu;

// Columns of a partial that share a copy of its statistics.
inline constexpr i32 kPartialStatsColumns = 16;
// Rows that a block attends from at a time; splits x kv heads x such tiles of rows are the units that blocks share.
inline constexpr i32 kDecodeUnitRows = 8;
// The most sequences of a wave: they are in the parameters, where the merge reads them without a round trip to memory.
inline constexpr i32 kDecodeWaveSequences = 208;
inline constexpr i32 kSplitPages = kSplitTokens / kPageTokens;

// One split of one sequence: all that a block must know of it, in one load of 16 words.
struct DecodeSplit {
  i32 first_token;  // row of the sequence's first new token in the packed arrays
  i32 num_tokens;   // new tokens
  i32 cached;       // tokens cached before this call
  i32 split;        // its keys are kSplitTokens * split and following
  i32 slots;        // index of its group of slots: as SequenceSlice::first_split + split
  i32 padding[3];
  i32 pages[kSplitPages];  // those past the sequence's end are 0
};
static_assert(sizeof(DecodeSplit) == 64);

// One wave. Row r of a sequence is (token r / group, query head kv_head * group + r % group).
//   partial slot of (split, kv head c, row r) = (split.slots * kv_heads + c) * rows_stride + r
struct GatedDecodeSm90aParams {
  TensorMap cache_k, cache_v, cache_kg;
  Packed q, k, v, qg, kg;
  Packed o;
  void* cache;
  // The wave's, longest first; may lie in page-locked memory of the host. Null if they lie in `sequences`, behind the
  // wave's, because there is room.
  const DecodeSplit* splits;
  float* partial_o;
  PartialStats* partial_stats;
  i32 num_splits, num_sequences;
  i32 q_heads, kv_heads;
  i32 rows_stride;  // the call's largest num_tokens * group
  i32 max_splits;   // of a sequence of the wave
  float softmax_scale_log2, gate_half_scale;
  SequenceSlice sequences[kDecodeWaveSequences];  // the wave's
  u64 padding[6];
};
static_assert(sizeof(GatedDecodeSm90aParams) == 3968, "4096 is what a launch takes");
#ifndef __CUDACC_RTC__  // which has no __builtin_offsetof
static_assert(__builtin_offsetof(GatedDecodeSm90aParams, cache) == 528);
static_assert(__builtin_offsetof(GatedDecodeSm90aParams, softmax_scale_log2) == 584);
static_assert(__builtin_offsetof(GatedDecodeSm90aParams, sequences) == 592);
#endif

}  // namespace stratum::abi
