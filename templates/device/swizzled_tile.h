// Descriptors of wgmma's operands in shared memory, for tiles as TMA writes them (sm_90a).
//
// A tile is a row-major array of `rows` rows of 64 elements (128 bytes, swizzled in groups of 8 rows, 1024 bytes) or of
// 32 elements (64 bytes, groups of 512); wider ones are several of those, one after the other. In a descriptor all is
// in units of 16 bytes: bits 0-13 the address, 16-29 the leading and 32-45 the stride offset, 62-63 the swizzle.
//
// A k-step of 16 elements is an addition to a descriptor:
//   k along the rows' columns (K-major): + 2 inside a 64-column block (32 bytes), + rows * 8 from block to block
//   k down the rows (transposed):        + 16 rows, 128 (rows of 128 bytes) or 64 (of 64)
#pragma once

#include "device/shared_tile.h"

namespace stratum {

STRATUM_DEVICE void store_shared_16(u32 address, const uint4& value) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x), "r"(value.y), "r"(value.z),
               "r"(value.w)
               : "memory");
}

// kColumns elements of a tile of kRows rows, split into blocks of at most 64 columns.
template <int kRows, int kColumns>
struct SwizzledTile {
  static_assert(kColumns % 64 == 0 || kColumns == 32, "whole blocks of 64 columns, or one of 32");
  static constexpr int rows = kRows;
  static constexpr int columns = kColumns;
  static constexpr int block_columns = kColumns < 64 ? kColumns : 64;
  static constexpr int blocks = kColumns / block_columns;
  static constexpr int row_bytes = block_columns * 2;
  static constexpr int block_bytes = kRows * row_bytes;
  static constexpr int bytes = blocks * block_bytes;
  static constexpr int group_bytes = 8 * row_bytes;  // what the swizzle repeats over
  static_assert(block_bytes % 1024 == 0, "blocks start where the swizzle does");

  // The low and the high half of the operand whose first row and column are the tile's, at `address`, a multiple of
  // 1024. Inside a cluster an address has the block's rank in its upper bits, which are none of the descriptor's.
  // All additions are to the low half, which never carries.
  STRATUM_DEVICE u32 low(u32 address) { return u32(block_bytes / 16) << 16 | (address & 0x3ffff) >> 4; }
  static constexpr u32 high = (row_bytes == 128 ? 1u : 2u) << 30 | u32(group_bytes / 16);
  STRATUM_DEVICE u64 descriptor(u32 low) { return u64(high) << 32 | low; }

  // What to add for k-step `step` (16 elements) along the columns.
  static constexpr u32 along_columns(int step) {
    constexpr int steps = block_columns / 16;
    return step / steps * (block_bytes / 16) + step % steps * 2;
  }
  // The same down the rows.
  static constexpr u32 along_rows(int step) { return step * (row_bytes == 128 ? 128 : 64); }

  // The byte offset of 16-byte chunk `chunk` of a row's block, swizzled.
  STRATUM_DEVICE u32 chunk_offset(int row, int chunk) {
    const int at = row_bytes == 128 ? chunk ^ (row & 7) : chunk ^ (row >> 1 & 3);
    return row * row_bytes + at * 16;
  }
};

}  // namespace stratum
