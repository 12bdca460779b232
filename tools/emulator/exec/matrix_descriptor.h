// Where wgmma finds an operand in shared memory: `rows` rows of 16 elements of 16 bits (rows of A, columns of B).
//
// A descriptor has, in units of 16 bytes, the first address in bits 0-13, the leading offset in bits 16-29 and the
// stride offset in bits 32-45; in bits 49-51 a base offset, for tiles that don't start where the swizzle does; in bits
// 62-63 the layout. Elements lie in chunks of 16 bytes, and rows of one, two, four or eight chunks, of which eight make
// a group:
//
//   K-major    a chunk has 8 k's of a row. Groups of 8 rows are the stride apart. The second chunk of a row follows the
//              first; without swizzle it is the leading offset away.
//   MN-major   a chunk has 8 rows at one k. Groups of 8 k's are the stride apart, and where a group's rows are full the
//              next begins the leading offset away. Without swizzle it is the other way round.
//
// At the end the chunk's number in its row is XORed with bits 7-9 of the address, as many as the row's width needs.
//
// All functions are inlined: sources for several instruction sets use them.
#pragma once

#include <cstdint>

namespace stratum::emulator {

inline constexpr uint32_t kChunkBytes = 16;

struct MatrixDescriptor {
  uint32_t start, leading, stride;  // bytes
  uint32_t base_offset;
  uint32_t row_bytes;   // 16, 32, 64 or 128
  bool rows_in_chunks;  // MN-major

  [[gnu::always_inline]] static MatrixDescriptor decode(uint64_t bits, bool mn_major) {
    const auto field = [&](int from) { return static_cast<uint32_t>(bits >> from & 0x3fff) * kChunkBytes; };
    const uint32_t layout = static_cast<uint32_t>(bits >> 62);
    return {field(0), field(16), field(32), static_cast<uint32_t>(bits >> 49 & 7), layout ? 256u >> layout : 16u,
            mn_major};
  }

  // The address of a chunk. K-major: that of row 8 `group` + `line`, k's 8 `half` to 8 `half` + 7. MN-major: that of
  // k = 8 `half` + `line`, rows 8 `group` to 8 `group` + 7.
  [[gnu::always_inline]] uint32_t chunk(uint32_t group, uint32_t half, uint32_t line) const {
    const bool swizzled = row_bytes > kChunkBytes;
    uint32_t at = start + line * row_bytes;
    if (rows_in_chunks) {
      const uint32_t chunks = row_bytes / kChunkBytes;
      at += swizzled ? group / chunks * leading + group % chunks * kChunkBytes + half * stride
                     : group * stride + half * leading;
    } else {
      at += group * stride + half * (swizzled ? kChunkBytes : leading);
    }
    return at ^ (at >> 3 & (row_bytes - kChunkBytes));
  }

  // Calls f(address) for the chunks of `count` groups of eight rows.
  template <class F>
  [[gnu::always_inline]] void each_chunk(uint32_t first_group, uint32_t count, F f) const {
    for (uint32_t group = first_group; group < first_group + count; ++group)
      for (uint32_t i = 0; i < 16; ++i) f(chunk(group, i / 8, i % 8));
  }
};

}  // namespace stratum::emulator
