// wgmma.mma_async: the instruction hands its product to the warpgroup, which computes it when it completes.
//
// Of 64 rows each warp of the four has 16. A warp's accumulators, and A if it is in registers, are laid out as the
// fragments of mma.sync: two register rows of an accumulator hold the even and the odd columns of an 8 x 8 tile.
#include "exec/exact_mma.h"
#include "exec/floats.h"
#include "exec/lanes.h"
#include "exec/plain_mma.h"
#include "exec/transpose.h"
#include "exec/warpgroup_product.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

constexpr uint32_t kMostColumns = 256, kTileColumns = 8;

[[gnu::always_inline]] inline const std::byte* chunk_of(const WarpgroupProduct& product,
                                                        const MatrixDescriptor& descriptor, uint32_t group,
                                                        uint32_t half, uint32_t line) {
  return product.shared + (descriptor.chunk(group, half, line) - kSharedBase);
}

// 8 rows and 8 k's, row by row of lines: rows of the operand if K-major, k's if MN-major.
[[gnu::always_inline]] inline void load_block(const WarpgroupProduct& product, const MatrixDescriptor& descriptor,
                                              uint32_t group, uint32_t half, uint16_t* block) {
  for (uint32_t line = 0; line < 8; ++line) {
    std::memcpy(block + 8 * line, chunk_of(product, descriptor, group, half, line), kChunkBytes);
  }
}

// Eight columns of B, row by row of k.
void load_b(const WarpgroupProduct& product, uint32_t tile, uint16_t* b) {
  for (uint32_t half = 0; half < 2; ++half) {
    uint16_t block[64];
    load_block(product, product.b, tile, half, block);
    if (product.b.rows_in_chunks) {
      std::memcpy(b + 64 * half, block, sizeof block);
    } else {
      transpose_8x8(block, b + 64 * half);
    }
  }
}

// A warp's rows of A in quarters: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15.
void load_a(const WarpgroupProduct& product, uint32_t warp, uint16_t (&a)[4][64]) {
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    if (product.a_registers) {
      std::memcpy(a[quarter], product.registers[warp] + product.a_registers[quarter], sizeof a[quarter]);
      continue;
    }
    uint16_t block[64];
    load_block(product, product.a, 2 * warp + quarter % 2, quarter / 2, block);
    if (product.a.rows_in_chunks) {
      transpose_8x8(block, a[quarter]);
    } else {
      std::memcpy(a[quarter], block, sizeof block);
    }
  }
  if (!product.negative) return;
  for (auto& quarter : a)
    for (uint16_t& element : quarter) element ^= 0x8000;
}

// The sums of a warp's 16 rows with eight columns, as they are before the product.
[[gnu::always_inline]] inline void load_sums(const WarpgroupProduct& product, uint32_t warp, uint32_t tile,
                                             float (&sums)[2][64]) {
  if (!product.adds) {
    std::memset(sums, 0, sizeof sums);
    return;
  }
  const auto from = [&](uint32_t index) {
    return product.before[warp] ? reinterpret_cast<const float*>(product.before[warp] + kLanes * index)
                                : reinterpret_cast<const float*>(product.registers[warp] + product.accumulators[index]);
  };
  for (uint32_t i = 0; i < 2; ++i) interleave<32>(from(4 * tile + 2 * i), from(4 * tile + 2 * i + 1), sums[i]);
}

[[gnu::always_inline]] inline void store_sums(const WarpgroupProduct& product, uint32_t warp, uint32_t tile,
                                              const float (&sums)[2][64]) {
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t* places = product.accumulators + 4 * tile + 2 * i;
    float* even = reinterpret_cast<float*>(product.registers[warp] + places[0]);
    float* odd = reinterpret_cast<float*>(product.registers[warp] + places[1]);
    for (uint32_t j = 0; j < 32; ++j) {
      even[j] = canonical(sums[i][2 * j]);
      odd[j] = canonical(sums[i][2 * j + 1]);
    }
  }
}

template <class Format>
void compute_exact(const WarpgroupProduct& product, const uint16_t (*b)[128]) {
  for (uint32_t warp = 0; warp < kWarpsOfGroup; ++warp) {
    uint16_t a[4][64], rows[16][16];
    load_a(product, warp, a);
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < 16; ++k) rows[m][k] = a[m / 8 + k / 8 * 2][m % 8 * 8 + k % 8];
    for (uint32_t tile = 0; tile < product.columns / kTileColumns; ++tile) {
      alignas(32) float sums[2][64];
      load_sums(product, warp, tile, sums);
      exact_multiply<Format>(rows[0], b[tile], reinterpret_cast<uint32_t*>(sums[0]));
      store_sums(product, warp, tile, sums);
    }
  }
}

template <auto to_float>
void compute_plain(const WarpgroupProduct& product, const uint16_t (*b)[128]) {
  alignas(32) float wide_b[kMostColumns / kTileColumns][128];
  const uint32_t tiles = product.columns / kTileColumns;
  for (uint32_t tile = 0; tile < tiles; ++tile) widen<to_float>(b[tile], 128, wide_b[tile]);
  for (uint32_t warp = 0; warp < kWarpsOfGroup; ++warp) {
    uint16_t a[4][64];
    alignas(32) float wide_a[4][64];
    load_a(product, warp, a);
    for (int i = 0; i < 4; ++i) widen<to_float>(a[i], 64, wide_a[i]);
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      alignas(32) float sums[2][64];
      load_sums(product, warp, tile, sums);
      plain_multiply(wide_a, wide_b[tile], sums);
      store_sums(product, warp, tile, sums);
    }
  }
}

template <class Format, auto to_float>
void compute(const WarpgroupProduct& product) {
  uint16_t b[kMostColumns / kTileColumns][128];
  for (uint32_t tile = 0; tile < product.columns / kTileColumns; ++tile) load_b(product, tile, b[tile]);
  if (product.mma == Mma::Exact) {
    compute_exact<Format>(product, b);
  } else {
    compute_plain<to_float>(product, b);
  }
}

template <bool kRegisters, class Format, auto to_float>
void issue(Warp& warp, const Step& step, uint32_t lanes) {
  issue_product(warp, step, lanes, kRegisters, compute<Format, to_float>);
}

constexpr auto kWidenBfloat16 = [](uint32_t x) { return from_bfloat16(x); };
constexpr auto kWidenFloat16 = [](uint32_t x) { return from_float16(x); };

// N columns, N / 2 accumulators.
#define PRODUCTS(columns, accumulators)                                                             \
  {"wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16", #accumulators "a=qqpmmmm",     \
   issue<false, Bfloat16, kWidenBfloat16>},                                                         \
      {"wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16", #accumulators "a=4wqpmmm", \
       issue<true, Bfloat16, kWidenBfloat16>},                                                      \
      {"wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.f16.f16", #accumulators "a=qqpmmmm",   \
       issue<false, Float16, kWidenFloat16>},                                                       \
  {                                                                                                 \
    "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.f16.f16", #accumulators "a=4wqpmmm",      \
        issue<true, Float16, kWidenFloat16>                                                         \
  }

const Form kForms[] = {
    PRODUCTS(8, 4),     PRODUCTS(16, 8),    PRODUCTS(24, 12),   PRODUCTS(32, 16),   PRODUCTS(40, 20),
    PRODUCTS(48, 24),   PRODUCTS(56, 28),   PRODUCTS(64, 32),   PRODUCTS(72, 36),   PRODUCTS(80, 40),
    PRODUCTS(88, 44),   PRODUCTS(96, 48),   PRODUCTS(104, 52),  PRODUCTS(112, 56),  PRODUCTS(120, 60),
    PRODUCTS(128, 64),  PRODUCTS(136, 68),  PRODUCTS(144, 72),  PRODUCTS(152, 76),  PRODUCTS(160, 80),
    PRODUCTS(168, 84),  PRODUCTS(176, 88),  PRODUCTS(184, 92),  PRODUCTS(192, 96),  PRODUCTS(200, 100),
    PRODUCTS(208, 104), PRODUCTS(216, 108), PRODUCTS(224, 112), PRODUCTS(232, 116), PRODUCTS(240, 120),
    PRODUCTS(248, 124), PRODUCTS(256, 128),
};

}  // namespace

FormList wgmma_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
