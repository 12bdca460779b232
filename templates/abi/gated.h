// Kernel parameters of the gated family: the one definition that the kernels and the runtime share.
//
// Every struct is passed by value as a kernel's only parameter. Strides count elements (16-bit), never bytes, and are
// 64-bit. The last axis of every array is contiguous. A change here changes the manifest's `params` and every build
// key.
#pragma once

#include "abi/types.h"

namespace stratum::abi {

// Tokens of one page of the key/value cache.
inline constexpr i32 kPageTokens = 64;
// Keys of one decode split: splits start at absolute multiples of this position, so a token's split boundaries depend
// on its own position alone.
inline constexpr i32 kSplitTokens = 512;
// The most tokens a decode call appends to one sequence.
inline constexpr i32 kMaxDecodeTokens = 8;

// A dense array [batch, token, head, dim].
struct Dense {
  void* data;
  i64 batch, token, head;
};

// Rows packed over the sequences of a serving call, [token, head, dim].
struct Packed {
  void* data;
  i64 token, head;
};

// Softmax statistics of one query row, kept in two parts so that backward can form s - max exactly even where
// max * scale is far beyond the precision of one float (logits of 1e11 are legal).
struct RowStats {
  float max;       // largest visible q.k, before scaling
  float log2_sum;  // log2 of sum_j exp2((q.k_j - max) * softmax_scale_log2)
};

struct GatedForwardParams {
  Dense q, k, v, qg, kg;
  Dense o;
  RowStats* stats;  // [batch, q_heads, seq_len]
  i32 batch, seq_len, q_heads, kv_heads;
  float softmax_scale_log2;  // log2(e) / sqrt(head_dim)
  float gate_half_scale;     // 0.5 / sqrt(gate_dim): sigmoid(x) = 0.5 + 0.5 tanh(x / 2)
};
static_assert(sizeof(GatedForwardParams) == 224);
#ifndef __CUDACC_RTC__  // which has no __builtin_offsetof
static_assert(__builtin_offsetof(GatedForwardParams, stats) == 192);
static_assert(__builtin_offsetof(GatedForwardParams, softmax_scale_log2) == 216);
#endif

// Both backward kernels take the same parameters: dq dqg (which also writes delta), then dk dv dkg (which reads it).
struct GatedBackwardParams {
  Dense q, k, v, qg, kg;
  Dense o, dout;
  Dense dq, dk, dv, dqg, dkg;
  const RowStats* stats;  // [batch, q_heads, seq_len]
  float* delta;           // [batch, q_heads, seq_len]: sum_d dout * o
  i32 batch, seq_len, q_heads, kv_heads;
  float softmax_scale_log2, gate_half_scale;
  float softmax_scale, gate_scale;  // 1 / sqrt(head_dim), 1 / sqrt(gate_dim)
};
static_assert(sizeof(GatedBackwardParams) == 432);
#ifndef __CUDACC_RTC__  // which has no __builtin_offsetof
static_assert(__builtin_offsetof(GatedBackwardParams, stats) == 384);
static_assert(__builtin_offsetof(GatedBackwardParams, softmax_scale_log2) == 416);
#endif

// ---- Serving. A page holds kPageTokens tokens of every kv head; the block of one (page, kv head) is contiguous:
//
//   block(page, head) = cache + (page * kv_heads + head) * kPageTokens * (2 * head_dim + gate_dim)     elements
//   inside a block:     k [kPageTokens][head_dim], v [kPageTokens][head_dim], kg [kPageTokens][gate_dim]

// One sequence of a serving call.
struct SequenceSlice {
  i32 first_token;  // row of its first new token in the packed arrays
  i32 num_tokens;   // new tokens in this call
  i32 cached;       // tokens cached before this call; the new ones take positions cached ... cached + num_tokens - 1
  i32 first_split;  // decode: index of its split 0 in the wave's list of splits (and so in the partials)
};
static_assert(sizeof(SequenceSlice) == 16);

// One unit of work of a serving launch: prefill's (sequence, query tile), decode's (sequence, split).
struct WorkItem {
  i32 sequence, index;
};
static_assert(sizeof(WorkItem) == 8);

// Softmax statistics of one row over the keys of one split.
struct PartialStats {
  float max;  // largest visible q.k of the split, before scaling; -inf when the row sees none of its keys
  float sum;  // sum_j exp2((q.k_j - max) * softmax_scale_log2)
};

struct PageCopy {
  i32 source, target;
};
static_assert(sizeof(PageCopy) == 8);

// Copies whole pages (copy on write), grid: (num_copies, any number of blocks that share a page).
struct GatedPageCopyParams {
  void* cache;
  const PageCopy* copies;
  i64 page_bytes;  // a multiple of 16
};
static_assert(sizeof(GatedPageCopyParams) == 24);

// Writes the new tokens' k, v, kg into their pages, grid: (ceil(num_tokens / tokens per block), kv_heads).
struct GatedAppendParams {
  Packed k, v, kg;
  void* cache;
  const SequenceSlice* sequences;
  const i32* block_table;  // [num_sequences][table_stride] page indices
  i32 num_tokens, num_sequences, kv_heads, table_stride;
};
static_assert(sizeof(GatedAppendParams) == 112);

// Attends from the new tokens to everything cached, themselves included, grid: (num_items * q_heads), item-major.
struct GatedPrefillParams {
  Packed q, qg, o;
  const void* cache;
  const SequenceSlice* sequences;
  const i32* block_table;
  const WorkItem* items;  // (sequence, query tile), longest first
  i32 num_items, q_heads, kv_heads, table_stride;
  float softmax_scale_log2, gate_half_scale;
};
static_assert(sizeof(GatedPrefillParams) == 128);

// One wave of split decode. Row r of a sequence is (token r / group, query head kv_head * group + r % group).
//   partial slot of (split item i, kv head c, row r) = (i * kv_heads + c) * rows_stride + r
// grid: (num_items * kv_heads * row_tiles), row tile fastest, then kv head; row_tiles = ceil(rows_stride / tile_m).
struct GatedDecodeParams {
  Packed q, qg;
  const void* cache;
  const SequenceSlice* sequences;
  const i32* block_table;
  const WorkItem* items;        // (sequence, split)
  float* partial_o;             // [slots][head_dim], not normalised
  PartialStats* partial_stats;  // [slots]
  i32 num_items, q_heads, kv_heads, table_stride;
  i32 rows_stride;  // rows kept for each (item, kv head): the call's largest num_tokens * group
  float softmax_scale_log2, gate_half_scale;
  i32 padding;
};
static_assert(sizeof(GatedDecodeParams) == 128);

// Merges a wave's partials in split order, grid: (ceil(num_rows / warps)); one warp a (token, q head) of the wave.
struct GatedDecodeMergeParams {
  Packed o;
  const SequenceSlice* sequences;
  const float* partial_o;
  const PartialStats* partial_stats;
  i32 first_sequence, num_sequences;  // the wave's sequences, in the call's order
  i32 first_token, num_tokens;        // their rows in the packed arrays
  i32 q_heads, kv_heads, rows_stride;
  float softmax_scale_log2;
};
static_assert(sizeof(GatedDecodeMergeParams) == 80);

}  // namespace stratum::abi
