// Launches of kernels.
#pragma once

#include <cstdint>
#include <memory>

#include "driver/state.h"

namespace stratum::emulator::driver {

// What a caller asks for.
struct LaunchConfig {
  uint32_t grid[3] = {}, block[3] = {};
  uint32_t shared_bytes = 0;
  void* stream = nullptr;
  uint32_t cluster[3] = {1, 1, 1};
  bool cooperative = false;
};

// Checks a launch against its function and device. A fault and a code if it isn't legal, else the launch.
Result check_launch(State& s, const Function& function, const LaunchConfig& config, void** params, void** extra,
                    std::shared_ptr<Launch>* launch);

// Notes a launch for those who ask, and in the log.
void record(State& s, std::shared_ptr<const Launch> launch);

// What runs a launch.
Work kernel_work(State& s, Function* function, std::shared_ptr<const Launch> launch);

}  // namespace stratum::emulator::driver
