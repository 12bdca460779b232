// The emulator's launches.
#include "driver/execution.h"

#include <algorithm>
#include <exception>
#include <string>

#include "driver/kernels.h"
#include "driver/observed.h"
#include "machine/run.h"

namespace stratum::emulator::driver {
namespace {

constexpr int kLaunchFailed = 719;

}  // namespace

int execute(State& s, const Function& function, const Launch& launch) {
  if (!s.execute || launch.captured) return kSuccess;
  try {
    Kernels& kernels = Kernels::get();
    const Kernel& kernel = kernels.of(function);
    if (launch.params.size() != kernel.parameter_bytes()) {
      s.fault(launch.kernel + ": parameters: given " + std::to_string(launch.params.size()) + " bytes, takes " +
              std::to_string(kernel.parameter_bytes()));
      return kInvalidValue;
    }
    emulator::Launch run{.shared_bytes = launch.shared_bytes, .parameters = launch.params.data()};
    std::copy_n(launch.grid, 3, run.grid);
    std::copy_n(launch.block, 3, run.block);
    const emulator::MemoryMap memory = memory_of(s, launch.call.get());
    run.options.checks = kernels.checks;
    run.options.memory = &memory;
    run.options.limit = kernels.limit;
    run.options.counters = kernels.counters(function);
    if (launch.call && !kernels.checks) launch.call->unwatched = true;
    emulator::run(kernel, run);
    if (launch.call) launch.call->kernels.insert(launch.kernel);
    return kSuccess;
  } catch (const std::exception& error) {
    s.fault(error.what());
    return kLaunchFailed;
  }
}

}  // namespace stratum::emulator::driver
