#include "machine/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/trap.h"

namespace stratum::emulator {
namespace {

void note(std::vector<Range>& ranges, int line, uint64_t address, uint32_t bytes) {
  if (!ranges.empty() && ranges.back().end == address && ranges.back().line == line) {
    ranges.back().end += bytes;
  } else {
    ranges.push_back({address, address + bytes, line});
  }
}

Actor actor(const Warp& warp, uint32_t lane) { return {warp.index * kLanes + lane, warp.step->line}; }

}  // namespace

Watch::Watch(const Program& program, const MemoryMap* memory, uint32_t warps, uint32_t shared_bytes)
    : program_(program), memory_(memory), order_(warps), shared_(order_, shared_bytes) {
  for (uint32_t i = 0; i < warps; ++i) registers_.emplace_back(program);
  const bool multiplies = std::ranges::any_of(program.steps, [](const Step& one) { return !one.accumulators.empty(); });
  for (uint32_t i = 0; multiplies && i < warps; ++i) in_flight_.emplace_back(program);
  counters_.steps.resize(program.steps.size());
  counters_.executed.assign(warps, std::vector<uint64_t>(program.steps.size()));
}

void Watch::reset() {
  order_.reset();
  shared_.reset();
  accesses_.read.clear();
  accesses_.written.clear();
  for (Definedness& registers : registers_) registers.reset();
  for (RegistersInFlight& registers : in_flight_) registers.reset();
  ++counters_.blocks;
}

void Watch::before(const Warp& warp, const Step& step, uint32_t active, uint32_t lanes) {
  began_ = __builtin_ia32_rdtsc();
  const size_t number = static_cast<size_t>(&step - program_.steps.data());
  counters_.steps[number].executed += lanes != 0;
  counters_.steps[number].lanes += static_cast<uint64_t>(__builtin_popcount(lanes));
  counters_.executed[warp.index][number] += lanes != 0;
  const Definedness& registers = registers_[warp.index];
  if (lanes && !in_flight_.empty()) in_flight_[warp.index].touch(step);
  registers.check(warp, step, active, lanes);
  const bool matrix = step.flow == DataFlow::StoreMatrix || step.flow == DataFlow::StoreMatrixTransposed;
  if (step.flow == DataFlow::Store || matrix) stored_ = registers.stored(step, lanes);
}

void Watch::after(const Warp& warp, const Step& step, uint32_t lanes) {
  registers_[warp.index].update(warp, step, lanes, loaded_);
  counters_.steps[static_cast<size_t>(&step - program_.steps.data())].ticks += __builtin_ia32_rdtsc() - began_;
}

void Watch::access(const Warp& warp, Space space, bool write, const uint64_t* address, uint32_t bytes, uint32_t lanes) {
  if (space == Space::Parameter) {
    loaded_ = {};
    return;
  }
  StepCounts& counts = counters_.steps[static_cast<size_t>(warp.step - program_.steps.data())];
  counts.bytes += uint64_t{bytes} * static_cast<uint32_t>(__builtin_popcount(lanes));
  // What an atomic operation makes of a value that nobody wrote is one too.
  const MissingBytes& stored = warp.step->flow == DataFlow::Atomic ? loaded_ : stored_;
  if (space == Space::Global) {
    counts.sectors += sectors(address, bytes, lanes);
    for_each_lane(lanes, [&](uint32_t lane) {
      if (write) {
        global_write(lane, address[lane], bytes, stored[lane]);
        note(accesses_.written, warp.step->line, address[lane], bytes);
      } else {
        loaded_[lane] = static_cast<uint16_t>(global_read(warp, lane, address[lane], bytes));
      }
    });
    return;
  }
  uint32_t offset[kLanes];
  for_each_lane(lanes, [&](uint32_t lane) { offset[lane] = static_cast<uint32_t>(address[lane] - kSharedBase); });
  counts.wavefronts += wavefronts(offset, bytes, lanes);
  counts.least_wavefronts += least_wavefronts(bytes, lanes);
  for_each_lane(lanes, [&](uint32_t lane) {
    if (write) {
      shared_.write(actor(warp, lane), offset[lane], bytes, stored[lane]);
    } else {
      loaded_[lane] = static_cast<uint16_t>(shared_.read(actor(warp, lane), offset[lane], bytes));
      if (loaded_[lane]) {
        registers_[warp.index].note_origin(
            warp.step->line, fmt::format("{} bytes at shared address {:#x}", bytes, kSharedBase + offset[lane]));
      }
    }
  });
}

const Region& Watch::region(const char* what, uint32_t lane, uint64_t address, uint32_t bytes) {
  if (latest_ != nullptr && latest_->axes.empty() && latest_->holds(address, bytes)) return *latest_;
  const Region* found = memory_->find(address, bytes);
  const auto text = [&] {
    return fmt::format("{} of {} bytes at global address {:#x}, lane {}", what, bytes, address, lane);
  };
  if (found == nullptr) throw Trap(Check::Bounds, fmt::format("{}: {}", text(), memory_->describe(address, bytes)));
  if (found->freed) throw Trap(Check::Freed, fmt::format("{}: {} was freed", text(), found->name));
  return *(latest_ = found);
}

uint32_t Watch::global_read(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes) {
  if (memory_ == nullptr) {
    note(accesses_.read, warp.step->line, address, bytes);
    return 0;
  }
  const Region& from = region("read", lane, address, bytes);
  if (from.writable) note(accesses_.read, warp.step->line, address, bytes);
  if (from.state == nullptr) return 0;
  const uint8_t* state = from.state + (address - from.first);
  uint32_t missing = 0;
  for (uint32_t i = 0; i < bytes; ++i) missing |= static_cast<uint32_t>(state[i] != kWritten) << i;
  if (missing) {
    const uint32_t first = static_cast<uint32_t>(__builtin_ctz(missing));
    const uint64_t place = address + first - from.first;
    if (state[first] == kReleased) {
      throw Trap(Check::Freed, fmt::format("read of {} bytes at byte {} of {}, lane {}: they were given back", bytes,
                                           place, from.name, lane));
    }
    registers_[warp.index].note_origin(warp.step->line,
                                       fmt::format("byte {} of {}, which nobody wrote", place, from.name));
  }
  return missing;
}

void Watch::global_write(uint32_t lane, uint64_t address, uint32_t bytes, uint32_t undefined) {
  if (memory_ == nullptr) return;
  const Region& to = region("write", lane, address, bytes);
  if (!to.writable) {
    throw Trap(Check::Bounds, fmt::format("write of {} bytes at byte {} of {}, lane {}: it is an input", bytes,
                                          address - to.first, to.name, lane));
  }
  if (to.state == nullptr) return;
  uint8_t* state = to.state + (address - to.first);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (state[i] == kReleased) {
      throw Trap(Check::Freed, fmt::format("write of {} bytes at byte {} of {}, lane {}: they were given back", bytes,
                                           address - to.first, to.name, lane));
    }
    state[i] = undefined >> i & 1 ? kUnwritten : kWritten;
  }
}

uint32_t Watch::begin_copy(const Warp& warp, uint32_t lane, uint64_t to, uint32_t bytes, uint64_t from,
                           uint32_t from_bytes) {
  shared_.begin_copy(actor(warp, lane), static_cast<uint32_t>(to - kSharedBase), bytes);
  return from_bytes ? global_read(warp, lane, from, from_bytes) : 0;
}

void Watch::end_copy(const Warp& warp, uint32_t lane, uint64_t to, uint32_t bytes, uint32_t undefined) {
  shared_.end_copy(actor(warp, lane), static_cast<uint32_t>(to - kSharedBase), bytes, undefined);
}

uint32_t Watch::read_async(const Warp& warp, uint32_t lane, Agent agent, uint32_t clock, uint64_t address,
                           uint32_t bytes) {
  return shared_.read_async(actor(warp, lane), agent, clock, static_cast<uint32_t>(address - kSharedBase), bytes);
}

void Watch::begin_tensor_copy(const Warp& warp, uint32_t lane, uint32_t mbarrier, uint32_t phase, uint64_t to,
                              uint32_t bytes) {
  shared_.begin_tensor_copy(actor(warp, lane), mbarrier, phase, static_cast<uint32_t>(to - kSharedBase), bytes);
}

void Watch::end_tensor_copy(uint64_t to, uint32_t bytes, uint32_t undefined) {
  shared_.end_tensor_copy(static_cast<uint32_t>(to - kSharedBase), bytes, undefined);
}

uint32_t Watch::tensor_read(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes) {
  StepCounts& counts = counters_.steps[static_cast<size_t>(warp.step - program_.steps.data())];
  counts.bytes += bytes;
  counts.sectors += sectors(&address, bytes, 1);
  return global_read(warp, lane, address, bytes);
}

void Watch::tensor_write(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes, uint32_t undefined) {
  StepCounts& counts = counters_.steps[static_cast<size_t>(warp.step - program_.steps.data())];
  counts.bytes += bytes;
  counts.sectors += sectors(&address, bytes, 1);
  global_write(lane, address, bytes, undefined);
  note(accesses_.written, warp.step->line, address, bytes);
}

uint32_t Watch::begin_product(const Warp& warp, const WarpgroupProduct& product) {
  in_flight_[warp.index].begin(*warp.step);
  registers_[warp.index].accumulate(*warp.step, product.adds);
  const uint32_t clock = begin_async(warp, Agent::Wgmma);
  const auto read = [&](char name, const MatrixDescriptor& matrix, uint32_t first_group, uint32_t groups) {
    matrix.each_chunk(first_group, groups, [&](uint32_t address) {
      if (!read_async(warp, 0, Agent::Wgmma, clock, address, kChunkBytes)) return;
      throw Trap(Check::Unwritten,
                 fmt::format("{} has a value that nobody wrote, at shared address {:#x}", name, address));
    });
  };
  const uint32_t groups_of_warp = kRowsOfGroup / kWarpsOfGroup / 8;
  if (!product.a_registers) read('A', product.a, warp.index % kWarpsOfGroup * groups_of_warp, groups_of_warp);
  read('B', product.b, 0, product.columns / 8);
  return clock;
}

void Watch::end_product(const Warp& warp, const Step& product, uint32_t clock) {
  in_flight_[warp.index].end(product);
  end_async(warp, Agent::Wgmma, clock);
}

void Watch::count_copies(const Warp& warp, const uint64_t* to, const uint64_t* from, const uint32_t* from_bytes,
                         uint32_t bytes, uint32_t lanes) {
  StepCounts& counts = counters_.steps[static_cast<size_t>(warp.step - program_.steps.data())];
  uint32_t reading = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    counts.bytes += from_bytes[lane];
    reading |= static_cast<uint32_t>(from_bytes[lane] != 0) << lane;
  });
  counts.sectors += sectors(from, bytes, reading);
  uint32_t offset[kLanes];
  for_each_lane(lanes, [&](uint32_t lane) { offset[lane] = static_cast<uint32_t>(to[lane] - kSharedBase); });
  counts.wavefronts += wavefronts(offset, bytes, lanes);
  counts.least_wavefronts += least_wavefronts(bytes, lanes);
}

}  // namespace stratum::emulator
