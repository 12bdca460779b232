// Runs kernels given as PTX on the CPU.
//
//   const Kernel kernel = Kernel::load(ptx, "gated_fwd_...");
//   run(kernel, {.grid = {32, 1, 1}, .block = {128, 1, 1}, .shared_bytes = 65536, .parameters = &params});
//
// Global addresses are addresses of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "machine/fault.h"
#include "machine/options.h"

namespace stratum::emulator {

struct Program;

class Kernel {
 public:
  // Decodes the entry of that name. ptx::ParseError for PTX that the emulator doesn't understand, std::invalid_argument
  // if the module has no such entry.
  static Kernel load(std::string_view ptx, std::string_view entry);

  const std::string& name() const;
  size_t parameter_bytes() const;      // of all parameters, as a launch lays them out
  size_t static_shared_bytes() const;  // that a block has besides the dynamic ones

  const Program& program() const { return *program_; }

 private:
  explicit Kernel(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

struct Launch {
  uint32_t grid[3] = {1, 1, 1};      // blocks
  uint32_t block[3] = {1, 1, 1};     // threads
  uint32_t shared_bytes = 0;         // dynamic shared memory
  uint32_t registers = 0;            // that each thread begins with, for setmaxnreg; 0: as many as anybody wants
  const void* parameters = nullptr;  // Kernel::parameter_bytes() bytes
  Options options = {};
};

// Runs all blocks and returns when they have ended. Throws the Fault of the first block, in their order, that has one;
// later blocks may have run or not. std::invalid_argument for a launch of no blocks, of no threads or of more than 1024
// threads a block.
void run(const Kernel& kernel, const Launch& launch);

}  // namespace stratum::emulator
