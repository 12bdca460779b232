// A row-major tile of 16-bit elements in shared memory, and the addresses from which ldmatrix reads MMA fragments.
//
// Rows are padded by 16 bytes. A row of `columns` elements (a multiple of 16) is then an odd number of 16-byte chunks
// long, so the eight rows that one 8x8 matrix takes fall into eight different bank groups: no conflict for ldmatrix,
// plain or transposed, and every address is a lane's base plus a compile-time constant.
#pragma once

#include "device/element.h"

namespace stratum {

STRATUM_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

STRATUM_DEVICE void store_shared(u32 address, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

STRATUM_DEVICE uint4 load_shared_16(u32 address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

STRATUM_DEVICE float4 load_shared_float4(u32 address) {
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

STRATUM_DEVICE float2 load_shared_float2(u32 address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}

template <int kRows, int kColumns>
struct SharedTile {
  static_assert(kColumns % 16 == 0, "rows are whole k-steps of 16 elements");
  static constexpr int rows = kRows;
  static constexpr int columns = kColumns;
  static constexpr int row_bytes = kColumns * 2 + 16;
  static constexpr int bytes = kRows * row_bytes;
  static constexpr int chunks_per_row = kColumns / 8;  // of 16 bytes
};

// The three ways in which a warp's lanes address ldmatrix.x4. Each gives this lane's byte offset for the 16x16 block
// at (row 0, column 0); another block is that plus row * row_bytes + column * 2.
template <class Tile>
struct LaneOffset {
  // A operand, 16 rows (m) by 16 columns (k), stored [m][k]. Registers come out in the order of mma's A.
  STRATUM_DEVICE u32 a(int lane) { return (lane & 15) * Tile::row_bytes + (lane >> 4) * 16; }
  // B operand of two n8 tiles, stored [n][k]: registers {b0, b1} of the first tile, then of the second.
  STRATUM_DEVICE u32 b(int lane) {
    return ((lane & 7) + ((lane >> 4) << 3)) * Tile::row_bytes + ((lane >> 3) & 1) * 16;
  }
  // B operand of two n8 tiles, stored [k][n], read with the transposing form: registers as for b.
  STRATUM_DEVICE u32 b_transposed(int lane) { return (lane & 15) * Tile::row_bytes + (lane >> 4) * 16; }
};

}  // namespace stratum
