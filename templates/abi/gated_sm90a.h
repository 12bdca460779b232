// Kernel parameters of the gated family's training kernels for sm_90a, which move every tile through tensor maps.
//
// Every struct is passed by value as a kernel's only parameter, declared `const __grid_constant__`, so that a tensor
// map's address is one in constant memory. All maps are of 16-bit elements and of one form, for a Dense array [batch,
// seq, head, dim]:
//
//   dims     {dim, heads, seq, batch}, innermost first; strides from the array
//   box      {min(64, dim), 1, rows, 1}: rows is 64 on the side whose rows a CTA owns (queries in forward and
//            backward_dq, keys in backward_dkv) and for outputs, the plan's tile_n on the side that is streamed
//   swizzle  128 bytes for boxes of 64 columns, 64 bytes for boxes of 32
//
// Rows past the end are read as zeros and not written.
//
// Grid: x only, persistent: as many clusters as there are tiles, or as the device holds blocks of them. The blocks of a
// cluster share a tile; each cluster walks the tiles in steps of their number. The tiles, and one more step, are less
// than 2^31. The statistics are those of the portable kernels (gated.h), except that max is some visible key's
// score, not always the largest: any forward serves any backward, and either family's backward_dq, with its delta,
// either's backward_dkv. Of the fused backward's three kernels blocks take a tile of queries each, or a pair of tiles
// of keys (fused_work.h).
#pragma once

#include "abi/gated.h"
#include "abi/tensor_map.h"

namespace stratum::abi {

struct GatedForwardSm90aParams {
  TensorMap q, k, v, qg, kg;
  TensorMap o;
  RowStats* stats;  // [batch, q_heads, seq_len]
  i32 batch, seq_len, q_heads, kv_heads;
  float softmax_scale_log2;  // log2(e) / sqrt(head_dim)
  float gate_half_scale;     // 0.5 / sqrt(gate_dim): sigmoid(x) = 0.5 + 0.5 tanh(x / 2)
  u64 padding[4];
};
static_assert(sizeof(GatedForwardSm90aParams) == 832);
#ifndef __CUDACC_RTC__  // which has no __builtin_offsetof
static_assert(__builtin_offsetof(GatedForwardSm90aParams, o) == 640);
static_assert(__builtin_offsetof(GatedForwardSm90aParams, stats) == 768);
static_assert(__builtin_offsetof(GatedForwardSm90aParams, softmax_scale_log2) == 792);
#endif

// Bytes of the fused backward's workspace for 64 queries of a head: the sums dQ and dQg in float32, then the queries'
// statistics and a count (query_tiles.h).
constexpr i64 query_tile_bytes(i64 head_dim, i64 gate_dim) { return 64 * 4 * (head_dim + gate_dim + 3) + 16; }

// All backward kernels take the same parameters: dq dqg (which also writes delta), then dk dv dkg (which reads it); or,
// instead of the two, delta, fused and round. Their maps differ in the rows of a box, and dq dqg and dk dv dkg get only
// the maps of their own outputs; the others are zeros.
struct GatedBackwardSm90aParams {
  TensorMap q, k, v, qg, kg, dout;
  TensorMap dq, dqg, dk, dv, dkg;
  Dense o, dout_rows;     // what delta is made of, read row by row; dout_rows is the array of the map dout
  const RowStats* stats;  // [batch, q_heads, seq_len]
  float* delta;           // [batch, q_heads, seq_len]: sum_d dout * o
  i32 batch, seq_len, q_heads, kv_heads;
  float softmax_scale_log2, gate_half_scale;
  float softmax_scale, gate_scale;  // 1 / sqrt(head_dim), 1 / sqrt(gate_dim)
  u8* query_tiles;  // of delta, fused and round, which use no other delta: every 64 queries of every head
                    // (query_tiles.h)
  u64 padding[1];
};
static_assert(sizeof(GatedBackwardSm90aParams) == 1536);
#ifndef __CUDACC_RTC__  // which has no __builtin_offsetof
static_assert(__builtin_offsetof(GatedBackwardSm90aParams, dq) == 768);
static_assert(__builtin_offsetof(GatedBackwardSm90aParams, stats) == 1472);
static_assert(__builtin_offsetof(GatedBackwardSm90aParams, softmax_scale_log2) == 1504);
#endif

}  // namespace stratum::abi
