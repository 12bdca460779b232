#include "machine/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "exec/decode.h"
#include "machine/block.h"
#include "machine/block_accesses.h"
#include "ptx/parser.h"

namespace stratum::emulator {

Kernel Kernel::load(std::string_view ptx, std::string_view entry) {
  const ptx::Module module = ptx::parse(ptx);
  std::string names;
  for (const ptx::Entry& one : module.entries) {
    if (one.name == entry) return Kernel(std::make_shared<const Program>(decode(module, one)));
    names += (names.empty() ? "" : ", ") + one.name;
  }
  throw std::invalid_argument(fmt::format("no entry '{}' in a module with: {}", entry, names));
}

const std::string& Kernel::name() const { return program_->name; }
size_t Kernel::parameter_bytes() const { return program_->parameter_bytes; }
size_t Kernel::static_shared_bytes() const { return program_->static_shared_bytes; }

namespace {

void add_counters(const Launch& launch, const Block& block) {
  static std::mutex mutex;
  if (!launch.options.counters || !block.counters()) return;
  const std::lock_guard lock(mutex);
  launch.options.counters->add(*block.counters());
}

// Blocks begin in their order, so every block before the first that faults has begun: the lowest fault is always the
// same one.
void run_apart(const Program& program, const Launch& launch, uint64_t blocks) {
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  uint64_t faulting = blocks;
  std::exception_ptr problem;
  BlockAccesses accesses(program, launch.options.memory);
  const auto work = [&] {
    uint64_t number = blocks;
    try {
      Block block(program, launch);
      while (!stop && (number = next++) < blocks) {
        block.run(number);
        if (const Accesses* made = block.accesses()) accesses.add(number, *made);
      }
      add_counters(launch, block);
    } catch (...) {
      stop = true;
      const std::lock_guard lock(mutex);
      if (number < faulting || !problem) faulting = number, problem = std::current_exception();
    }
  };
  const uint64_t wanted = launch.options.threads ? launch.options.threads : std::thread::hardware_concurrency();
  std::vector<std::jthread> others;
  for (uint64_t i = 1; i < std::min(wanted, blocks); ++i) others.emplace_back(work);
  work();
  others.clear();
  if (problem) std::rethrow_exception(problem);
  accesses.finish();
}

void run_together(const Program& program, const Launch& launch, uint64_t blocks) {
  std::vector<std::unique_ptr<Block>> running;
  for (uint64_t number = 0; number < blocks; ++number) {
    running.push_back(std::make_unique<Block>(program, launch));
    running.back()->begin(number);
  }
  while (!running.empty()) {
    std::erase_if(running, [&](const std::unique_ptr<Block>& block) {
      if (block->advance()) return false;
      add_counters(launch, *block);
      return true;
    });
  }
}

}  // namespace

void run(const Kernel& kernel, const Launch& launch) {
  constexpr uint64_t kMostThreads = 1024;
  const auto& [x, y, z] = launch.block;
  const uint64_t threads =
      x && y && z && x <= kMostThreads && y <= kMostThreads && z <= kMostThreads ? uint64_t{x} * y * z : 0;
  if (threads < 1 || threads > kMostThreads) {
    throw std::invalid_argument(
        fmt::format("{}: block: expected 1 to {} threads, got {} x {} x {}", kernel.name(), kMostThreads, x, y, z));
  }
  const uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  if (blocks == 0) throw std::invalid_argument(kernel.name() + ": grid: expected at least one block, got none");

  if (launch.options.together) {
    run_together(kernel.program(), launch, blocks);
  } else {
    run_apart(kernel.program(), launch, blocks);
  }
}

}  // namespace stratum::emulator
