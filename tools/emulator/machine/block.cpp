#include "machine/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

#include "exec/paths.h"
#include "exec/trap.h"
#include "machine/poison.h"

namespace stratum::emulator {
namespace {

constexpr std::align_val_t kAlign{64};  // of rows, for vector instructions

void fill(std::byte* row, uint64_t bits, bool wide) {
  if (wide) {
    std::fill_n(reinterpret_cast<uint64_t*>(row), kLanes, bits);
  } else {
    std::fill_n(reinterpret_cast<uint32_t*>(row), kLanes, static_cast<uint32_t>(bits));
  }
}

}  // namespace

void Block::Free::operator()(std::byte* memory) const { ::operator delete[](memory, kAlign); }

Block::Block(const Program& program, const Launch& launch)
    : program_(program),
      launch_(launch),
      threads_(launch.block[0] * launch.block[1] * launch.block[2]),
      shared_(program.static_shared_bytes + launch.shared_bytes),
      warps_((threads_ + kLanes - 1) / kLanes),
      copies_(warps_.size()),
      stores_(warps_.size()) {
  registers_.reset(static_cast<std::byte*>(::operator new[](program.register_bytes* warps_.size(), kAlign)));
  if (launch.options.checks) {
    watch_ = std::make_unique<Watch>(program, launch.options.memory, static_cast<uint32_t>(warps_.size()),
                                     static_cast<uint32_t>(shared_.size()));
  }
  for (size_t i = 0; i + kWarpsOfGroup <= warps_.size(); i += kWarpsOfGroup) warpgroups_.emplace_back(&warps_[i]);
  for (uint32_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[i];
    if (i / kWarpsOfGroup < warpgroups_.size()) warp.warpgroup = &warpgroups_[i / kWarpsOfGroup];
    warp.index = i;
    warp.registers = registers_.get() + size_t{i} * program.register_bytes;
    warp.shared = shared_.data();
    warp.shared_bytes = static_cast<uint32_t>(shared_.size());
    warp.parameters = static_cast<const std::byte*>(launch.parameters);
    warp.parameter_bytes = program.parameter_bytes;
    warp.options = &launch.options;
    warp.watch = watch_.get();
    warp.copies = &copies_[i];
    warp.barriers = &barriers_;
    warp.work = &work_;
    warp.mbarriers = &mbarriers_;
    warp.stores = &stores_[i];
    warp.pool = &pool_;
    const uint32_t lanes = std::min(threads_ - i * kLanes, kLanes);
    warp.threads = kAllLanes >> (kLanes - lanes);
  }
}

// What nothing writes to.
void Block::place_constants() {
  for (Warp& warp : warps_) {
    for (const Program::Constant& constant : program_.constants) {
      fill(warp.registers + constant.row, constant.bits, constant.wide);
    }
    const uint32_t predicates[] = {kAllLanes, 0};  // kTrue and kFalse
    std::memcpy(warp.registers, predicates, sizeof predicates);
    fill_specials(warp);
  }
}

void Block::begin(uint64_t number) {
  index_[0] = static_cast<uint32_t>(number % launch_.grid[0]);
  index_[1] = static_cast<uint32_t>(number / launch_.grid[0] % launch_.grid[1]);
  index_[2] = static_cast<uint32_t>(number / launch_.grid[0] / launch_.grid[1]);
  std::fill(shared_.begin(), shared_.end(), std::byte{kPoison});
  std::memset(registers_.get(), kPoison, program_.register_bytes * warps_.size());
  if (watch_) watch_->reset();
  for (Warpgroup& warpgroup : warpgroups_) warpgroup.reset();
  barriers_.reset(warps_, watch_ ? &watch_->order() : nullptr);
  mbarriers_.reset(warps_, watch_ ? &watch_->order() : nullptr);
  pool_.reset(warps_, launch_.registers);
  work_.reset();
  executed_ = 0;
  chance_.seed = launch_.options.seed + (number << 16);
  for (Warp& warp : warps_) {
    warp.live = warp.active = warp.threads;
    warp.pc = 0;
    warp.reconverge = kEnd;
    warp.waiting = false;
    warp.suspended.clear();
    warp.copies->clear();
    warp.stores->clear();
    warp.seed = chance_.seed + warp.index + 1;
  }
  place_constants();
}

void Block::fill_specials(Warp& warp) {
  for (const auto& [row, special] : program_.specials) {
    uint32_t* values = reinterpret_cast<uint32_t*>(warp.registers + row);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t thread = warp.index * kLanes + lane;
      const uint32_t* block = launch_.block;
      const uint32_t* grid = launch_.grid;
      values[lane] = [&, special = special] {
        switch (special) {
          case Special::TidX:
            return thread % block[0];
          case Special::TidY:
            return thread / block[0] % block[1];
          case Special::TidZ:
            return thread / block[0] / block[1];
          case Special::NtidX:
            return block[0];
          case Special::NtidY:
            return block[1];
          case Special::NtidZ:
            return block[2];
          case Special::CtaidX:
            return index_[0];
          case Special::CtaidY:
            return index_[1];
          case Special::CtaidZ:
            return index_[2];
          case Special::NctaidX:
            return grid[0];
          case Special::NctaidY:
            return grid[1];
          case Special::NctaidZ:
            return grid[2];
          case Special::Laneid:
            return lane;
        }
        return 0u;
      }();
    }
  }
}

void Block::run(uint64_t number) {
  begin(number);
  while (advance()) {
  }
}

bool Block::advance() {
  if (launch_.options.seed ? run_random_warp() : take_turns()) return true;
  end();
  return false;
}

// Each warp until it waits, or for a while where other blocks want to go on. False when all have ended.
bool Block::take_turns() {
  constexpr uint64_t kWhile = 1000;
  bool progress = false, alive = false;
  for (Warp& warp : warps_) {
    alive |= warp.live != 0;
    if (!warp.live || warp.waiting) continue;
    progress = true;
    run_warp(warp, launch_.options.together ? kWhile : std::numeric_limits<uint64_t>::max());
  }
  if (alive && !progress) finish_work();
  return alive;
}

bool Block::run_random_warp() {
  constexpr uint32_t kWhile = 64;
  try {
    work_.advance(chance_);
  } catch (const Trap& trap) {
    fault(work_.latest(), trap.check, trap.what());
  }
  std::array<Warp*, kMostWarps> ready;
  uint32_t count = 0;
  bool alive = false;
  for (Warp& warp : warps_) {
    alive |= warp.live != 0;
    if (warp.live && !warp.waiting) ready[count++] = &warp;
  }
  if (!alive) return false;
  if (!count) {
    finish_work();
    return true;
  }
  run_warp(*ready[chance_.random() % count], 1 + chance_.random() % kWhile);
  return true;
}

void Block::finish_work() {
  try {
    if (!work_.finish_oldest()) deadlock();
  } catch (const Trap& trap) {
    fault(work_.latest(), trap.check, trap.what());
  }
}

// All warps have ended: nothing may write to the block's shared memory any more; what was stored arrives.
void Block::end() {
  try {
    mbarriers_.end();
    while (work_.finish_oldest()) {
    }
  } catch (const Trap& trap) {
    fault(warps_.front(), trap.check, trap.what());
  }
}

// Until the warp waits or ends, or has executed `most` instructions.
void Block::run_warp(Warp& warp, uint64_t most) {
  const uint64_t limit = launch_.options.limit;
  if (limit) most = std::min(most, limit - executed_ + 1);
  uint64_t left = most;
  try {
    if (warp.warpgroup) warp.warpgroup->resume(warp);
    if (watch_) {
      step_warp<true>(warp, left);
    } else {
      step_warp<false>(warp, left);
    }
    if (!warp.live) {
      warp.stores->end();
      if (warp.warpgroup) warp.warpgroup->leave(warp);
      barriers_.leave(warp);
    }
    executed_ += most - left;
    if (limit && executed_ > limit) {
      throw Trap(Check::Limit, fmt::format("no end after {} instructions of the block", limit));
    }
  } catch (const Trap& trap) {
    fault(warp, trap.check, trap.what());
  }
}

template <bool kWatched>
void Block::step_warp(Warp& warp, uint64_t& left) {
  const Step* const steps = program_.steps.data();
  for (; warp.active && !warp.waiting && left; --left) {
    const Step& step = steps[warp.pc];
    warp.step = &step;
    ++warp.pc;
    uint32_t guard;
    std::memcpy(&guard, warp.registers + step.guard, sizeof guard);
    const uint32_t lanes = warp.active & (guard ^ step.guard_flip);
    if constexpr (kWatched) watch_->before(warp, step, warp.active, lanes);
    if (lanes) {
      step.run(warp, step, lanes);
      if constexpr (kWatched) watch_->after(warp, step, lanes);
    }
    if (warp.pc == warp.reconverge) resume(warp);
  }
}

void Block::fault(const Warp& warp, Check check, const std::string& text) const {
  throw Fault(check, program_.name, warp.step->line,
              fmt::format("{} (block {}, {}, {}, warp {})", text, index_[0], index_[1], index_[2], warp.index));
}

std::string Block::waited_for(const Warp& warp) const {
  const std::string product = warp.warpgroup ? warp.warpgroup->describe(warp) : "";
  for (const std::string& text : {mbarriers_.describe(warp), pool_.describe(warp), product})
    if (!text.empty()) return text;
  return barriers_.describe(warp);
}

void Block::deadlock() const {
  std::string text;
  const Warp* first = nullptr;
  for (const Warp& warp : warps_) {
    if (!warp.waiting) continue;
    text += fmt::format("{}warp {} waits at line {} for {}", first ? "; " : "", warp.index, warp.step->line,
                        waited_for(warp));
    if (!first) first = &warp;
  }
  fault(*first, Check::Deadlock, text);
}

}  // namespace stratum::emulator
