// Four 8 x 8 matrices of 16-bit elements between shared memory and registers. Lanes 8i ... 8i+7 give the addresses of
// the rows of matrix i. In a register lane l has elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, so that a register
// row is the matrix, row by row.
#include "exec/addresses.h"
#include "exec/transpose.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

constexpr size_t kRowBytes = 16;

void find_matrix_rows(Warp& warp, const Step& step, uint32_t address_row, bool write, uint32_t lanes, Places& places) {
  if (lanes != kAllLanes) trap_not_converged(warp, lanes, kAllLanes);
  find_places<Space::Shared>(warp, step, address_row, 0, kRowBytes, kRowBytes, write, lanes, places);
}

template <bool kTransposed>
void load_matrices(Warp& warp, const Step& step, uint32_t lanes) {
  Places places;
  find_matrix_rows(warp, step, step.row[4], false, lanes, places);
  uint16_t matrix[4][64];
  for (int i = 0; i < 32; ++i) std::memcpy(matrix[i / 8] + i % 8 * 8, places.of[i], kRowBytes);
  for (int i = 0; i < 4; ++i) {
    uint16_t* to = row<uint16_t>(warp, step.row[i]);
    if constexpr (kTransposed) {
      transpose_8x8(matrix[i], to);
    } else {
      std::memcpy(to, matrix[i], sizeof matrix[i]);
    }
  }
}

void store_matrices(Warp& warp, const Step& step, uint32_t lanes) {
  Places places;
  find_matrix_rows(warp, step, step.row[0], true, lanes, places);
  for (int i = 0; i < 32; ++i) {
    std::memcpy(places.of[i], row<uint16_t>(warp, step.row[1 + i / 8]) + i % 8 * 8, kRowBytes);
  }
}

const Form kForms[] = {
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "4w=S", load_matrices<false>},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "4w=S", load_matrices<true>},
    {"stmatrix.sync.aligned.m8n8.x4.shared.b16", "=S4w", store_matrices},
};

}  // namespace

FormList matrix_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
