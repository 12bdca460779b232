// wgmma: what a warp does to hand a product to its warpgroup, fences, groups and waits.
#include <fmt/format.h>

#include <cstring>

#include "exec/forms.h"
#include "exec/trap.h"
#include "machine/warpgroup.h"

namespace stratum::emulator {
namespace {

Warpgroup& warpgroup_of(Warp& warp, uint32_t lanes) {
  if (lanes != kAllLanes) trap_not_converged(warp, lanes, kAllLanes);
  if (warp.warpgroup) return *warp.warpgroup;
  throw Trap(Check::Converged,
             fmt::format("four warps multiply together, and the block has only some of warps {} to {}",
                         warp.index / 4 * 4, warp.index / 4 * 4 + 3));
}

uint64_t uniform(const Warp& warp, uint32_t place, const char* what) {
  uint64_t row[kLanes];
  std::memcpy(row, warp.registers + place, sizeof row);
  for (const uint64_t value : row)
    if (value != row[0]) throw Trap(Check::Converged, fmt::format("{} differs between lanes", what));
  return row[0];
}

MatrixDescriptor matrix(const Warp& warp, char name, uint64_t bits, bool mn_major, uint32_t rows) {
  const MatrixDescriptor found = MatrixDescriptor::decode(bits, mn_major);
  if (found.base_offset) {
    throw Trap(Check::Operand, fmt::format("the descriptor of {} is {:#x}: expected a base offset of 0", name, bits));
  }
  found.each_chunk(0, rows / 8, [&](uint32_t address) {
    if (address >= kSharedBase && address - kSharedBase + kChunkBytes <= warp.shared_bytes) return;
    throw Trap(Check::Bounds, fmt::format("{} with the descriptor {:#x}: 16 bytes at shared address {:#x} are outside "
                                          "shared memory, which ends at {:#x}",
                                          name, bits, address, kSharedBase + warp.shared_bytes));
  });
  return found;
}

// Whether a factor of 1 or -1 is the latter.
bool negative(int8_t factor) {
  if (factor != 1 && factor != -1)
    throw Trap(Check::Operand, fmt::format("expected a scale of 1 or -1, got {}", factor));
  return factor < 0;
}

bool mn_major(int8_t transposed) {
  if (transposed != 0 && transposed != 1)
    throw Trap(Check::Operand, fmt::format("expected a transposition of 0 or 1, got {}", transposed));
  return transposed != 0;
}

void fence(Warp& warp, const Step&, uint32_t lanes) { warpgroup_of(warp, lanes).fence(warp); }

void commit(Warp& warp, const Step&, uint32_t lanes) { warpgroup_of(warp, lanes).commit(warp); }

void wait(Warp& warp, const Step& step, uint32_t lanes) { warpgroup_of(warp, lanes).wait(warp, step.number); }

const Form kForms[] = {
    {"wgmma.fence.sync.aligned", "=", fence},
    {"wgmma.commit_group.sync.aligned", "=", commit},
    {"wgmma.wait_group.sync.aligned", "=i", wait},
};

}  // namespace

void issue_product(Warp& warp, const Step& step, uint32_t lanes, bool a_in_registers,
                   void (*compute)(const WarpgroupProduct&)) {
  Warpgroup& group = warpgroup_of(warp, lanes);
  const uint32_t* rest = step.row + (a_in_registers ? 4 : 1);  // the descriptor of B, the predicate
  uint32_t adds;
  std::memcpy(&adds, warp.registers + rest[1], sizeof adds);
  if (adds != 0 && adds != kAllLanes) throw Trap(Check::Converged, "whether D is added to differs between lanes");
  const uint32_t columns = 2 * static_cast<uint32_t>(step.accumulators.size());
  WarpgroupProduct product = {};
  product.shared = warp.shared;
  product.accumulators = step.accumulators.data();
  product.columns = columns;
  product.negative = negative(step.modifiers[0]) != negative(step.modifiers[1]);
  product.adds = adds != 0;
  product.mma = warp.options->mma;
  const uint64_t b = uniform(warp, rest[0], "the descriptor of B");
  product.b = matrix(warp, 'B', b, mn_major(step.modifiers[a_in_registers ? 2 : 3]), columns);
  uint64_t a = 0;
  if (a_in_registers) {
    product.a_registers = step.row;
  } else {
    a = uniform(warp, step.row[0], "the descriptor of A");
    product.a = matrix(warp, 'A', a, mn_major(step.modifiers[2]), kRowsOfGroup);
  }
  group.issue(warp, product, compute, a, b);
}

FormList warpgroup_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
