#include "machine/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
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
      copies_(warps_.size()) {
  const size_t bytes = program.register_bytes * warps_.size();
  registers_.reset(static_cast<std::byte*>(::operator new[](bytes, kAlign)));
  std::memset(registers_.get(), kPoison, bytes);
  for (uint32_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[i];
    warp.index = i;
    warp.registers = registers_.get() + size_t{i} * program.register_bytes;
    warp.shared = shared_.data();
    warp.shared_bytes = static_cast<uint32_t>(shared_.size());
    warp.parameters = static_cast<const std::byte*>(launch.parameters);
    warp.parameter_bytes = program.parameter_bytes;
    warp.options = &launch.options;
    warp.copies = &copies_[i];
    warp.barriers = &barriers_;
    const uint32_t lanes = std::min(threads_ - i * kLanes, kLanes);
    warp.threads = kAllLanes >> (kLanes - lanes);
    // Nothing writes to the rows of constants.
    for (const Program::Constant& constant : program.constants) {
      fill(warp.registers + constant.row, constant.bits, constant.wide);
    }
    const uint32_t predicates[] = {kAllLanes, 0};  // kTrue and kFalse
    std::memcpy(warp.registers, predicates, sizeof predicates);
  }
}

void Block::reset(uint64_t number) {
  index_[0] = static_cast<uint32_t>(number % launch_.grid[0]);
  index_[1] = static_cast<uint32_t>(number / launch_.grid[0] % launch_.grid[1]);
  index_[2] = static_cast<uint32_t>(number / launch_.grid[0] / launch_.grid[1]);
  std::fill(shared_.begin(), shared_.end(), std::byte{kPoison});
  barriers_.reset(warps_);
  for (Warp& warp : warps_) {
    warp.live = warp.active = warp.threads;
    warp.pc = 0;
    warp.reconverge = kEnd;
    warp.waiting = false;
    warp.suspended.clear();
    warp.copies->clear();
    fill_specials(warp);
  }
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
  reset(number);
  for (;;) {
    bool progress = false, alive = false;
    for (Warp& warp : warps_) {
      alive |= warp.live != 0;
      if (!warp.live || warp.waiting) continue;
      progress = true;
      run_warp(warp);
    }
    if (!alive) return;
    if (!progress) deadlock();
  }
}

// Until the warp waits or ends.
void Block::run_warp(Warp& warp) {
  const Step* const steps = program_.steps.data();
  try {
    while (warp.active && !warp.waiting) {
      const Step& step = steps[warp.pc];
      warp.step = &step;
      ++warp.pc;
      uint32_t guard;
      std::memcpy(&guard, warp.registers + step.guard, sizeof guard);
      const uint32_t lanes = warp.active & (guard ^ step.guard_flip);
      if (lanes) step.run(warp, step, lanes);
      if (warp.pc == warp.reconverge) resume(warp);
    }
    if (!warp.live) barriers_.leave();
  } catch (const Trap& trap) {
    fault(warp, trap.what());
  }
}

void Block::fault(const Warp& warp, const std::string& text) const {
  throw Fault(program_.name, warp.step->line,
              fmt::format("{} (block {}, {}, {}, warp {})", text, index_[0], index_[1], index_[2], warp.index));
}

void Block::deadlock() const {
  std::string text = "deadlock:";
  const Warp* first = nullptr;
  for (const Warp& warp : warps_) {
    if (!warp.waiting) continue;
    text += fmt::format("{} warp {} waits at line {} for {}", first ? ";" : "", warp.index, warp.step->line,
                        barriers_.describe(warp));
    if (!first) first = &warp;
  }
  fault(*first, text);
}

}  // namespace stratum::emulator
