#include "driver/execution.h"

#include <algorithm>
#include <exception>
#include <string>

#include "driver/kernels.h"
#include "driver/observed.h"
#include "driver/state.h"

namespace stratum::emulator::driver {
namespace {

Result result_of(Check check) {
  if (check == Check::Misaligned) return kMisalignedAddress;
  return check == Check::Bounds || check == Check::Freed ? kIllegalAddress : kLaunchFailed;
}

}  // namespace

Result load_kernel(State& s, const Function& function, const Kernel** kernel) {
  try {
    *kernel = &Kernels::get().of(function);
    return kSuccess;
  } catch (const std::exception& error) {
    return s.refuse(kInvalidPtx, function.name + ": " + error.what());
  }
}

Result execute(State& s, const Function& function, const Launch& launch) {
  if (!s.execute) return kSuccess;
  try {
    Kernels& kernels = Kernels::get();
    emulator::Launch run{.shared_bytes = launch.shared_bytes,
                         .registers = static_cast<uint32_t>(kernels.row(function).registers),
                         .parameters = launch.params.data()};
    std::copy_n(launch.grid, 3, run.grid);
    std::copy_n(launch.block, 3, run.block);
    MemoryMap memory;
    run.options.checks = kernels.checks;
    run.options.mma = kernels.mma;
    if (kernels.checks) {
      memory = memory_of(s, launch.call.get());
      run.options.memory = &memory;
    } else {
      assume_written(s);
      if (launch.call) launch.call->unwatched = true;
    }
    run.options.limit = kernels.limit;
    run.options.together = launch.cooperative;
    run.options.counters = kernels.counters(function);
    if (s.settings.schedule == Schedule::Random) {
      run.options.copies = Arrival::Random;
      run.options.seed = s.random() | 1;
    }
    emulator::run(kernels.of(function), run);
    if (launch.call) launch.call->kernels.insert(launch.kernel);
    return kSuccess;
  } catch (const Fault& fault) {
    return s.refuse(result_of(fault.check), fault.what());
  } catch (const std::exception& error) {
    return s.refuse(kLaunchFailed, function.name + ": " + error.what());
  }
}

}  // namespace stratum::emulator::driver
