// One, two or four 8 x 8 matrices of 16-bit elements between shared memory and registers. Lanes 8i ... 8i+7 give the
// addresses of the rows of matrix i. In a register lane l has elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, so
// that a register row is the matrix, row by row.
#include "exec/addresses.h"
#include "exec/transpose.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

constexpr size_t kRowBytes = 16;

void find_matrix_rows(Warp& warp, const Step& step, uint32_t address_row, bool write, uint32_t lanes, int count,
                      Places& places) {
  if (lanes != kAllLanes) trap_not_converged(warp, lanes, kAllLanes);
  const uint32_t with_rows = kAllLanes >> (32 - 8 * count);
  find_places<Space::Shared>(warp, step, address_row, 0, kRowBytes, kRowBytes, write, with_rows, places);
}

template <int kCount, bool kTransposed>
void load_matrices(Warp& warp, const Step& step, uint32_t lanes) {
  Places places;
  find_matrix_rows(warp, step, step.row[kCount], false, lanes, kCount, places);
  uint16_t matrix[kCount][64];
  for (int i = 0; i < 8 * kCount; ++i) std::memcpy(matrix[i / 8] + i % 8 * 8, places.of[i], kRowBytes);
  for (int i = 0; i < kCount; ++i) {
    uint16_t* to = row<uint16_t>(warp, step.row[i]);
    if constexpr (kTransposed) {
      transpose_8x8(matrix[i], to);
    } else {
      std::memcpy(to, matrix[i], sizeof matrix[i]);
    }
  }
}

template <int kCount, bool kTransposed>
void store_matrices(Warp& warp, const Step& step, uint32_t lanes) {
  Places places;
  find_matrix_rows(warp, step, step.row[0], true, lanes, kCount, places);
  for (int i = 0; i < kCount; ++i) {
    uint16_t matrix[64];
    const uint16_t* from = row<uint16_t>(warp, step.row[1 + i]);
    if constexpr (kTransposed) {
      transpose_8x8(from, matrix);
    } else {
      std::memcpy(matrix, from, sizeof matrix);
    }
    for (int j = 0; j < 8; ++j) std::memcpy(places.of[8 * i + j], matrix + 8 * j, kRowBytes);
  }
}

void transpose(Warp& warp, const Step& step, uint32_t lanes) {
  if (lanes != kAllLanes) trap_not_converged(warp, lanes, kAllLanes);
  uint16_t matrix[64];
  transpose_8x8(row<uint16_t>(warp, step.row[1]), matrix);
  std::memcpy(row<uint16_t>(warp, step.row[0]), matrix, sizeof matrix);
}

const Form kForms[] = {
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16", "1w=S", load_matrices<1, false>},
    {"ldmatrix.sync.aligned.m8n8.x2.shared.b16", "2w=S", load_matrices<2, false>},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "4w=S", load_matrices<4, false>},
    {"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", "1w=S", load_matrices<1, true>},
    {"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "2w=S", load_matrices<2, true>},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "4w=S", load_matrices<4, true>},
    {"stmatrix.sync.aligned.m8n8.x1.shared.b16", "=S1w", store_matrices<1, false>},
    {"stmatrix.sync.aligned.m8n8.x2.shared.b16", "=S2w", store_matrices<2, false>},
    {"stmatrix.sync.aligned.m8n8.x4.shared.b16", "=S4w", store_matrices<4, false>},
    {"stmatrix.sync.aligned.m8n8.x1.trans.shared.b16", "=S1w", store_matrices<1, true>},
    {"stmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "=S2w", store_matrices<2, true>},
    {"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "=S4w", store_matrices<4, true>},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "w=w", transpose},
};

}  // namespace

FormList matrix_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
