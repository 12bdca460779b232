// One block: its warps, its shared memory, its barriers. A block is run from start to end by one host thread, its warps
// in turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/warp.h"
#include "machine/async_copies.h"
#include "machine/barriers.h"
#include "machine/run.h"

namespace stratum::emulator {

class Block {
 public:
  // Makes room for any block of the launch; both must outlive it.
  Block(const Program& program, const Launch& launch);

  // Runs the block of that number, counted along x first. Throws Fault.
  void run(uint64_t number);

 private:
  void reset(uint64_t number);
  void run_warp(Warp& warp);
  [[noreturn]] void fault(const Warp& warp, const std::string& text) const;
  [[noreturn]] void deadlock() const;
  void fill_specials(Warp& warp);

  struct Free {
    void operator()(std::byte* memory) const;
  };
  const Program& program_;
  const Launch& launch_;
  uint32_t threads_;
  uint32_t index_[3] = {};
  std::unique_ptr<std::byte[], Free> registers_;
  std::vector<std::byte> shared_;
  std::vector<Warp> warps_;
  std::vector<AsyncCopies> copies_;
  Barriers barriers_;
};

}  // namespace stratum::emulator
