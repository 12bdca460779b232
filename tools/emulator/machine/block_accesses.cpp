#include "machine/block_accesses.h"

#include <fmt/format.h>

#include <algorithm>

#include "machine/fault.h"

namespace stratum::emulator {
namespace {

// In order of address, without overlaps. Bytes that are touched twice keep the line of the range that begins first.
std::vector<Range> joined(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::first);
  std::vector<Range> found;
  for (const Range& range : ranges) {
    if (!found.empty() && range.first <= found.back().end) {
      found.back().end = std::max(found.back().end, range.end);
    } else {
      found.push_back(range);
    }
  }
  return found;
}

}  // namespace

BlockAccesses::BlockAccesses(const Program& program, const MemoryMap* memory)
    : program_(program),
      memory_(memory),
      blocks_may_meet_(std::ranges::any_of(program.steps, [](const Step& s) { return s.flow == DataFlow::Atomic; })) {}

void BlockAccesses::add(uint64_t block, const Accesses& accesses) {
  if (blocks_may_meet_) return;
  const std::vector<Range> written = joined(accesses.written), read = joined(accesses.read);
  const std::lock_guard lock(mutex_);
  for (const Range& range : written) {
    const auto next = owned_.upper_bound(range.first);
    if (next != owned_.begin() && std::prev(next)->second.end > range.first) {
      fault("write", range.first, block, range.line, std::prev(next)->second);
    }
    if (next != owned_.end() && next->first < range.end) fault("write", next->first, block, range.line, next->second);
    owned_.emplace_hint(next, range.first, Owned{range.end, block, range.line});
  }
  for (const Range& range : read) read_.push_back({range, block});
}

void BlockAccesses::finish() const {
  for (const auto& [range, block] : read_) {
    auto next = owned_.upper_bound(range.first);
    if (next != owned_.begin() && std::prev(next)->second.end > range.first) --next;
    for (; next != owned_.end() && next->first < range.end; ++next) {
      if (next->second.block != block) {
        fault("read", std::max(next->first, range.first), block, range.line, next->second);
      }
    }
  }
}

void BlockAccesses::fault(const char* what, uint64_t address, uint64_t block, int line, const Owned& other) const {
  std::string place = fmt::format("global address {:#x}", address);
  if (const Region* region = memory_ ? memory_->find(address, 1) : nullptr) {
    place = fmt::format("byte {} of {}", address - region->first, region->name);
  }
  throw Fault(Check::Race, program_.name, line,
              fmt::format("{} of {} by block {}: written by block {} at line {}; nothing orders the two", what, place,
                          block, other.block, other.line));
}

}  // namespace stratum::emulator
