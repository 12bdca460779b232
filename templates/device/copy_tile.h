// Moves tiles between global and shared memory with all threads of a block.
#pragma once

#include "device/cp_async.h"
#include "device/shared_tile.h"

namespace stratum {

// Rows of a strided array in global memory: row i starts at data + i * stride (elements).
struct Rows {
  const u16* data;
  i64 stride;
};

// One thread's part in copying a run of tiles from global to shared memory. Consecutive threads take consecutive
// 16-byte chunks of a row, so global accesses are whole sectors; the thread's chunks are `pieces` of equal distance, so
// that a tile costs one addition a piece. Pieces can be issued one by one, between other work.
template <class Tile, int kThreads>
struct TileCopy {
  static constexpr int chunks = Tile::rows * Tile::chunks_per_row;  // of 16 bytes
  static constexpr int pieces = (chunks + kThreads - 1) / kThreads;
  static constexpr bool aligned = kThreads % Tile::chunks_per_row == 0;  // a thread keeps to one column

  // Starts the copy of one piece of the tile whose row 0 is rows.data. Rows from `valid` on are filled with zeros and
  // never read.
  STRATUM_DEVICE void issue(int piece, u32 destination, const Rows& rows, int valid) {
    const int chunk = static_cast<int>(threadIdx.x) + piece * kThreads;
    if (chunks % kThreads != 0 && chunk >= chunks) return;
    int row, column;
    if constexpr (aligned) {
      constexpr int step_rows = kThreads / Tile::chunks_per_row;
      row = static_cast<int>(threadIdx.x) / Tile::chunks_per_row + piece * step_rows;
      column = static_cast<int>(threadIdx.x) % Tile::chunks_per_row;
    } else {
      row = chunk / Tile::chunks_per_row;
      column = chunk % Tile::chunks_per_row;
    }
    cp_async_16(destination + row * Tile::row_bytes + column * 16, rows.data + row * rows.stride + column * 8,
                row < valid);
  }
};

// Starts the copy of a whole tile.
template <class Tile, int kThreads>
STRATUM_DEVICE void copy_tile_async(u32 destination, const Rows& rows, int valid) {
#pragma unroll
  for (int piece = 0; piece < TileCopy<Tile, kThreads>::pieces; ++piece) {
    TileCopy<Tile, kThreads>::issue(piece, destination, rows, valid);
  }
}

// Writes a warp's accumulators, 16 rows by kColumns, to rows of global memory as 16-bit elements. The warp's own
// scratch of a 16-row shared tile turns the fragment layout into whole 16-byte chunks of a row. Rows from `valid` on
// are not written.
template <class Element, int kColumns>
STRATUM_DEVICE void store_warp_rows(const float (&accumulator)[kColumns / 8][4], const float (&scale)[2], u32 scratch,
                                    u16* data, i64 stride, int valid) {
  using Tile = SharedTile<16, kColumns>;
  const int lane = threadIdx.x & 31;
  const u32 mine = scratch + (lane >> 2) * Tile::row_bytes + (lane & 3) * 4;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    const float(&c)[4] = accumulator[n];
    store_shared(mine + n * 16, Element::pack(c[0] * scale[0], c[1] * scale[0]));
    store_shared(mine + n * 16 + 8 * Tile::row_bytes, Element::pack(c[2] * scale[1], c[3] * scale[1]));
  }
  __syncwarp();
  constexpr int chunks = 16 * Tile::chunks_per_row;
#pragma unroll
  for (int i = 0; i < chunks / 32; ++i) {
    const int chunk = lane + i * 32;
    const int row = chunk / Tile::chunks_per_row;
    const int column = chunk % Tile::chunks_per_row;
    if (row < valid) {
      const uint4 bits = load_shared_16(scratch + row * Tile::row_bytes + column * 16);
      *reinterpret_cast<uint4*>(data + row * stride + column * 8) = bits;
    }
  }
}

}  // namespace stratum
