#include "machine/block_writes.h"

#include <fmt/format.h>

#include <algorithm>

#include "machine/fault.h"

namespace stratum::emulator {
namespace {

// In order of address, without overlaps. Bytes that are written twice keep the line of the range that begins first.
std::vector<Written> joined(std::vector<Written> ranges) {
  std::ranges::sort(ranges, {}, &Written::first);
  std::vector<Written> found;
  for (const Written& range : ranges) {
    if (!found.empty() && range.first <= found.back().end) {
      found.back().end = std::max(found.back().end, range.end);
    } else {
      found.push_back(range);
    }
  }
  return found;
}

}  // namespace

BlockWrites::BlockWrites(const Program& program, const MemoryMap* memory)
    : program_(program),
      memory_(memory),
      blocks_may_meet_(std::ranges::any_of(program.steps, [](const Step& s) { return s.flow == DataFlow::Atomic; })) {}

void BlockWrites::add(uint64_t block, std::vector<Written> written) {
  if (blocks_may_meet_) return;
  const std::vector<Written> ranges = joined(std::move(written));
  const std::lock_guard lock(mutex_);
  for (const Written& range : ranges) {
    const auto next = owned_.upper_bound(range.first);
    if (next != owned_.begin() && std::prev(next)->second.end > range.first) {
      fault(range.first, block, range.line, std::prev(next)->second);
    }
    if (next != owned_.end() && next->first < range.end) fault(next->first, block, range.line, next->second);
    owned_.emplace_hint(next, range.first, Owned{range.end, block, range.line});
  }
}

void BlockWrites::fault(uint64_t address, uint64_t block, int line, const Owned& other) const {
  std::string place = fmt::format("global address {:#x}", address);
  if (const Region* region = memory_ ? memory_->find(address, 1) : nullptr) {
    place = fmt::format("byte {} of {}", address - region->first, region->name);
  }
  throw Fault(Check::Race, program_.name, line,
              fmt::format("write of {} by block {}: written by block {} at line {}; nothing orders the two", place,
                          block, other.block, other.line));
}

}  // namespace stratum::emulator
