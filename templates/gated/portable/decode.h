// One split of decode: the new tokens of a sequence against 512 of its keys, for one kv head.
//
// Rows are the new tokens times the query heads of the group (row r = token r / group, head r % group), tile_m a block.
// The split's keys are cut into chunks of tile_n; chunk c, counted from the split's start, belongs to warp c % warps.
//
//     each warp   cp.async its chunk i + stages - 1 ──▶ own stage          │ runs beside
//                 S = Q K^T   T = Qg Kg^T                                   │ the products
//                 m, l, p = exp2((S - m) c), w = p + p tanh(T / 2)          │ of its chunk i
//                 O = O rescale + w V
//     at the end  O, m, l of every warp ──▶ shared memory; all threads join them in warp order and store the partial
//
// Warps meet only at the end. A row's bits depend on its own position and data alone: chunks sit at absolute positions,
// warps take them by position, and a chunk that is wholly behind a row's mask leaves its state as it is, so neither the
// other tokens of the call nor the rest of the tile matter.
//
// Registers (D 128, R 64, tile_m 16, tile_n 16): O 64, Q and Qg 48, S 8, T 8. Shared memory: stages of K, V [tile_n][D]
// and Kg [tile_n][R] for each warp, in which the warp leaves its result at the end.
#pragma once

#include "gated/portable/fragments.h"
#include "gated/portable/online_softmax.h"
#include "gated/portable/paged_cache.h"

namespace stratum::gated {

template <class Element_, int kHeadDim, int kGateDim, int kTileM, int kTileN, int kWarps, int kStages>
struct DecodeTile {
  using Element = Element_;
  static constexpr int head_dim = kHeadDim, gate_dim = kGateDim;
  static constexpr int tile_m = kTileM, tile_n = kTileN;
  static constexpr int row_blocks = tile_m / 16;  // of an MMA
  static constexpr int warps = kWarps, stages = kStages, threads = warps * 32;
  static_assert(tile_m % 16 == 0 && tile_n % 16 == 0 && abi::kPageTokens % tile_n == 0 && stages >= 2);

  using Block = CacheBlock<head_dim, gate_dim>;
  using K = SharedTile<tile_n, head_dim>;
  using Kg = SharedTile<tile_n, gate_dim>;
  static constexpr int kg_offset = K::bytes;
  static constexpr int v_offset = kg_offset + Kg::bytes;
  static constexpr int stage_bytes = v_offset + K::bytes;

  // A warp's result: O [tile_m][head_dim], rows padded against bank conflicts, then (m, l) [tile_m].
  static constexpr int result_stride = head_dim + 8;
  static constexpr int result_bytes = tile_m * (result_stride * sizeof(float) + sizeof(abi::PartialStats));
  static constexpr int ring_bytes = stages * stage_bytes;
  static constexpr int warp_bytes = ring_bytes > result_bytes ? ring_bytes : result_bytes;
  static constexpr int shared_bytes = warps * warp_bytes;
};

// What a block works on: some rows of a sequence, and the keys of one split that they can see.
struct DecodeWork {
  abi::SequenceSlice sequence;
  const i32* pages;  // of the split
  i64 slot;          // of the tile's first row in the partials
  i32 kv_head;
  i32 group;
  i32 first_row, num_rows;  // of the tile
  i32 first_key, num_keys;  // of the split; num_keys may be 0

  // Rows of the tile that do not exist repeat the last one that does; nothing of theirs is stored.
  __device__ __forceinline__ i32 token(int row) const { return (first_row + min(row, num_rows - 1)) / group; }
  __device__ __forceinline__ i32 head(int row) const {
    return kv_head * group + (first_row + min(row, num_rows - 1)) % group;
  }
  __device__ __forceinline__ i32 last_visible_key(int row) const { return sequence.cached + token(row); }
};

// Finds this block's work; num_rows is not positive when the tile lies past the sequence's rows.
template <class Tile>
STRATUM_DEVICE DecodeWork decode_work(const abi::GatedDecodeParams& params) {
  const u32 row_tiles = (params.rows_stride + Tile::tile_m - 1) / Tile::tile_m;
  const u32 unit = blockIdx.x / row_tiles;
  const abi::WorkItem item = params.items[unit / params.kv_heads];
  DecodeWork work;
  work.sequence = params.sequences[item.sequence];
  work.kv_head = unit % params.kv_heads;
  work.group = params.q_heads / params.kv_heads;
  work.first_row = blockIdx.x % row_tiles * Tile::tile_m;
  work.num_rows = min(Tile::tile_m, work.sequence.num_tokens * work.group - work.first_row);
  work.pages = sequence_pages(params.block_table, item.sequence, params.table_stride) +
               item.index * (abi::kSplitTokens / abi::kPageTokens);
  const i64 split = work.sequence.first_split + item.index;
  work.slot = (split * params.kv_heads + work.kv_head) * params.rows_stride + work.first_row;
  work.first_key = item.index * abi::kSplitTokens;
  const i32 visible = work.last_visible_key(work.num_rows - 1) + 1;
  work.num_keys = max(0, min(abi::kSplitTokens, visible - work.first_key));
  return work;
}

// A fragments of 16 rows, straight from global memory: rows r and r + 8 of lane 4 r + c, columns 2 c and 2 c + 8 on.
template <int kSteps>
STRATUM_DEVICE void load_query(u32 (&fragments)[kSteps][4], const abi::Packed& array, const DecodeWork& work, int row,
                               int lane) {
  const u32* rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int mine = row + (lane >> 2) + i * 8;
    const i64 token = work.sequence.first_token + work.token(mine);
    const u16* data = static_cast<const u16*>(array.data) + token * array.token + work.head(mine) * array.head;
    rows[i] = reinterpret_cast<const u32*>(data) + (lane & 3);
  }
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) fragments[k][i] = rows[i % 2][k * 8 + i / 2 * 4];
  }
}

// Hides from two rows the keys behind their last visible ones; `key` is that of this thread's first column. Their gates
// may be NaN, of an infinity times the zeros behind the last key, and 0 times NaN is no 0.
template <int kTiles>
STRATUM_DEVICE void hide_keys(float (&s)[kTiles][4], float (&t)[kTiles][4], i32 key, const i32 (&last_visible)[2]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (key + n * 8 + i % 2 > last_visible[i / 2]) {
        s[n][i] = -kInfinity;
        t[n][i] = 0.f;
      }
    }
  }
}

// One warp's state: its rows' queries, softmax and output.
template <class Tile>
struct DecodeWarp {
  using Element = typename Tile::Element;
  static constexpr int D = Tile::head_dim, R = Tile::gate_dim, N = Tile::tile_n;

  u32 q[Tile::row_blocks][D / 16][4];
  u32 qg[Tile::row_blocks][R / 16][4];
  i32 last_visible[Tile::row_blocks][2];
  float o[Tile::row_blocks][D / 8][4];
  OnlineSoftmax softmax[Tile::row_blocks];

  __device__ __forceinline__ void start(const abi::GatedDecodeParams& params, const DecodeWork& work, int lane) {
#pragma unroll
    for (int b = 0; b < Tile::row_blocks; ++b) {
      load_query(q[b], params.q, work, b * 16, lane);
      load_query(qg[b], params.qg, work, b * 16, lane);
      last_visible[b][0] = work.last_visible_key(b * 16 + (lane >> 2));
      last_visible[b][1] = work.last_visible_key(b * 16 + (lane >> 2) + 8);
      clear(o[b]);
    }
  }

  // Attends to the chunk in `stage` that starts at position `key`; `hide` says that a row may not see all of it.
  __device__ __forceinline__ void attend(u32 stage, i32 key, bool hide, const abi::GatedDecodeParams& params,
                                         int lane) {
    const u32 k = stage + LaneOffset<typename Tile::K>::b(lane);
    const u32 kg = stage + Tile::kg_offset + LaneOffset<typename Tile::Kg>::b(lane);
    const u32 v = stage + Tile::v_offset + LaneOffset<typename Tile::K>::b_transposed(lane);
#pragma unroll
    for (int b = 0; b < Tile::row_blocks; ++b) {
      float s[N / 8][4], t[N / 8][4], rescale[2];
      clear(s);
#pragma unroll
      for (int i = 0; i < D / 16; ++i) multiply_step<Element, typename Tile::K>(s, q[b][i], k + i * 32);
      clear(t);
#pragma unroll
      for (int i = 0; i < R / 16; ++i) multiply_step<Element, typename Tile::Kg>(t, qg[b][i], kg + i * 32);
      if (hide) hide_keys(s, t, key + (lane & 3) * 2, last_visible[b]);
      const Scales scales{params.softmax_scale_log2, params.gate_half_scale};
      softmax[b].raise(rescale, s, scales);
      u32 w[N / 16][4];
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) t[n][i] = fast_tanh(t[n][i] * scales.gate_half);
        softmax[b].weigh(s[n], t[n], scales);
        pack_operand<Element>(w, n, s[n]);
      }
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o[b][n][i] *= rescale[i / 2];
      }
      accumulate_rows<Element, typename Tile::K>(o[b], w, v);
    }
  }

  __device__ __forceinline__ void leave_result(u8* result, int lane) {
    float* rows = reinterpret_cast<float*>(result);
    auto* stats = reinterpret_cast<abi::PartialStats*>(rows + Tile::tile_m * Tile::result_stride);
#pragma unroll
    for (int b = 0; b < Tile::row_blocks; ++b) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = b * 16 + (lane >> 2) + r * 8;
        float2* columns = reinterpret_cast<float2*>(rows + row * Tile::result_stride + (lane & 3) * 2);
#pragma unroll
        for (int n = 0; n < D / 8; ++n) columns[n * 4] = {o[b][n][2 * r], o[b][n][2 * r + 1]};
        const float sum = quad_sum(softmax[b].sum[r]);
        if ((lane & 3) == 0) stats[row] = {softmax[b].max[r], sum};
      }
    }
  }
};

// Joins the warps' results in warp order and stores the rows' partials.
template <class Tile>
STRATUM_DEVICE void store_partials(const u8* results, const abi::GatedDecodeParams& params, const DecodeWork& work) {
  constexpr int vectors = Tile::head_dim / 4;
  for (int i = threadIdx.x; i < work.num_rows * vectors; i += Tile::threads) {
    const int row = i / vectors;
    const int column = i % vectors * 4;
    abi::PartialStats stats[Tile::warps];
    abi::PartialStats joint{-kInfinity, 0.f};
#pragma unroll
    for (int w = 0; w < Tile::warps; ++w) {
      const float* rows = reinterpret_cast<const float*>(results + w * Tile::warp_bytes);
      stats[w] = reinterpret_cast<const abi::PartialStats*>(rows + Tile::tile_m * Tile::result_stride)[row];
      joint.max = fmaxf(joint.max, stats[w].max);
    }
    float4 o{0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int w = 0; w < Tile::warps; ++w) {
      const float* rows = reinterpret_cast<const float*>(results + w * Tile::warp_bytes);
      const float4 part = *reinterpret_cast<const float4*>(rows + row * Tile::result_stride + column);
      const float factor = part_factor(stats[w].max, joint.max, params.softmax_scale_log2);
      joint.sum = fmaf(factor, stats[w].sum, joint.sum);
      o = {fmaf(factor, part.x, o.x), fmaf(factor, part.y, o.y), fmaf(factor, part.z, o.z), fmaf(factor, part.w, o.w)};
    }
    *reinterpret_cast<float4*>(params.partial_o + (work.slot + row) * Tile::head_dim + column) = o;
    if (column == 0) params.partial_stats[work.slot + row] = joint;
  }
}

// Grid: items x kv heads x row tiles in one dimension, row tiles fastest, so that they find the split's keys in L2.
template <class Tile>
STRATUM_DEVICE void decode(const abi::GatedDecodeParams& params) {
  constexpr int N = Tile::tile_n;
  extern __shared__ __align__(16) u8 shared_memory[];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const DecodeWork work = decode_work<Tile>(params);
  if (work.num_rows <= 0) return;

  // Lane i of every warp holds the split's page i; those past the last key are no pages.
  const int num_pages = (work.num_keys + abi::kPageTokens - 1) / abi::kPageTokens;
  const i32 page_of_lane = lane < num_pages ? work.pages[lane] : 0;
  const int num_chunks = (work.num_keys + N - 1) / N;
  u8* own = shared_memory + warp * Tile::warp_bytes;
  const u32 stages = shared_address(own);

  const auto load_chunk = [&](int chunk, int stage) {
    const int first = chunk * N;
    const i32 page = __shfl_sync(0xffffffffu, page_of_lane, first / abi::kPageTokens);
    const int row = first % abi::kPageTokens;
    const int valid = work.num_keys - first;
    const u16* block = static_cast<const u16*>(params.cache) + Tile::Block::offset(page, work.kv_head, params.kv_heads);
    const u16* k = block + Tile::Block::k + row * Tile::head_dim;
    const u16* kg = block + Tile::Block::kg + row * Tile::gate_dim;
    const u16* v = block + Tile::Block::v + row * Tile::head_dim;
    const u32 to = stages + stage * Tile::stage_bytes;
    copy_block_rows_async<typename Tile::K>(to, k, valid, lane);
    copy_block_rows_async<typename Tile::Kg>(to + Tile::kg_offset, kg, valid, lane);
    copy_block_rows_async<typename Tile::K>(to + Tile::v_offset, v, valid, lane);
  };

  // One group of copies a chunk, empty past the end, so that the wait's count means the same every time.
#pragma unroll
  for (int i = 0; i < Tile::stages - 1; ++i) {
    const int chunk = warp + i * Tile::warps;
    if (chunk < num_chunks) load_chunk(chunk, i);
    cp_async_commit();
  }
  DecodeWarp<Tile> state;
  state.start(params, work, lane);
  const i32 seen_by_all = work.last_visible_key(0);

  int stage = 0;
  for (int chunk = warp; chunk < num_chunks; chunk += Tile::warps) {
    cp_async_wait<Tile::stages - 2>();
    __syncwarp();
    const int next = chunk + (Tile::stages - 1) * Tile::warps;
    const int free_stage = stage == 0 ? Tile::stages - 1 : stage - 1;
    if (next < num_chunks) load_chunk(next, free_stage);
    cp_async_commit();

    const i32 key = work.first_key + chunk * N;
    state.attend(stages + stage * Tile::stage_bytes, key, key + N - 1 > seen_by_all, params, lane);
    stage = stage == Tile::stages - 1 ? 0 : stage + 1;
  }

  __syncwarp();
  state.leave_result(own, lane);
  __syncthreads();
  store_partials<Tile>(shared_memory, params, work);
}

}  // namespace stratum::gated
