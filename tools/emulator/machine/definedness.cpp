#include "machine/definedness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/trap.h"

namespace stratum::emulator {
namespace {

// Elements that the lanes hold of the matrices of ldmatrix and stmatrix: those of a row.
uint32_t lanes_of_row(int row, bool transposed) {
  uint32_t lanes = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (transposed ? lane % 4 == row / 2 : lane / 4 == row) lanes |= 1u << lane;
  }
  return lanes;
}

}  // namespace

Definedness::Definedness(const Program& program) : program_(program), undefined_(program.cells) { reset(); }

void Definedness::reset() {
  std::ranges::fill(undefined_, kAllLanes);
  undefined_[program_.cell_of(kTrue)] = undefined_[program_.cell_of(kFalse)] = 0;
  for (const Program::Constant& constant : program_.constants) undefined_[program_.cell_of(constant.row)] = 0;
  for (const Program::SpecialRow& special : program_.specials) undefined_[program_.cell_of(special.row)] = 0;
  origin_.clear();
}

void Definedness::use(const Step& step, uint32_t operand, uint32_t lanes) const {
  const uint32_t missing = undefined_[step.cell[operand]] & lanes;
  if (missing) unwritten(fmt::format("operand {}", operand + 1), missing);
}

void Definedness::unwritten(const std::string& what, uint32_t missing) const {
  std::string text = fmt::format("{} has a value that nobody wrote, lane {}", what, __builtin_ctz(missing));
  if (!origin_.empty()) text += fmt::format("; the latest such value was read at line {}: {}", origin_line_, origin_);
  throw Trap(Check::Unwritten, text);
}

void Definedness::accumulate(const Step& product, bool adds) {
  for (const uint32_t place : product.accumulators) {
    const uint16_t cell = program_.cell_of(place);
    if (adds && undefined_[cell]) unwritten("accumulator " + program_.names[cell], undefined_[cell]);
    undefined_[cell] = 0;
  }
}

void Definedness::check(const Warp&, const Step& step, uint32_t active, uint32_t lanes) const {
  if (undefined_[step.guard_cell] & active) throw Trap(Check::Unwritten, "the guard has a value that nobody wrote");
  if (!lanes) return;
  switch (step.flow) {
    case DataFlow::Move:
      return;
    case DataFlow::Select:
      use(step, step.operands - 1u, lanes);
      return;
    case DataFlow::Store:
    case DataFlow::StoreMatrix:
    case DataFlow::StoreMatrixTransposed:
      use(step, 0, lanes);
      return;
    default:
      for (uint32_t i = step.writes; i < step.operands; ++i) use(step, i, lanes);
  }
}

MissingBytes Definedness::stored(const Step& step, uint32_t lanes) const {
  MissingBytes missing{};
  if (step.flow == DataFlow::Store) {
    const uint32_t element = (1u << step.element_bytes) - 1;
    for (uint32_t i = 1; i < step.operands; ++i) {
      for_each_lane(undefined_[step.cell[i]] & lanes, [&](uint32_t lane) {
        missing[lane] = static_cast<uint16_t>(missing[lane] | element << (i - 1) * step.element_bytes);
      });
    }
  } else {
    const bool transposed = step.flow == DataFlow::StoreMatrixTransposed;
    for (int lane = 0; lane < 8 * (step.operands - 1); ++lane) {
      if (undefined_[step.cell[1 + lane / 8]] & lanes_of_row(lane % 8, transposed)) missing[lane] = 0xffff;
    }
  }
  return missing;
}

void Definedness::update(const Warp& warp, const Step& step, uint32_t lanes, const MissingBytes& loaded) {
  const auto set = [&](uint32_t operand, uint32_t missing) {
    uint32_t& cell = undefined_[step.cell[operand]];
    cell = (cell & ~lanes) | (missing & lanes);
  };
  switch (step.flow) {
    case DataFlow::Move: {
      uint32_t missing = 0;
      for (uint32_t i = step.writes; i < step.operands; ++i) missing |= undefined_[step.cell[i]];
      for (uint32_t i = 0; i < step.writes; ++i) set(i, missing);
      return;
    }
    case DataFlow::Select: {
      uint32_t first;
      std::memcpy(&first, warp.registers + step.row[3], sizeof first);
      set(0, (undefined_[step.cell[1]] & first) | (undefined_[step.cell[2]] & ~first));
      return;
    }
    case DataFlow::Load:
    case DataFlow::Atomic: {
      const uint32_t element = (1u << step.element_bytes) - 1;
      for (uint32_t i = 0; i < step.writes; ++i) {
        uint32_t missing = 0;
        for_each_lane(lanes, [&](uint32_t lane) {
          if (loaded[lane] & element << i * step.element_bytes) missing |= 1u << lane;
        });
        set(i, missing);
      }
      return;
    }
    case DataFlow::LoadMatrix:
    case DataFlow::LoadMatrixTransposed:
      for (uint32_t i = 0; i < step.writes; ++i) {
        uint32_t missing = 0;
        for (int row = 0; row < 8; ++row) {
          if (loaded[8 * i + row]) missing |= lanes_of_row(row, step.flow == DataFlow::LoadMatrixTransposed);
        }
        set(i, missing);
      }
      return;
    default:
      for (uint32_t i = 0; i < step.writes; ++i) set(i, 0);
  }
}

}  // namespace stratum::emulator
