#include "driver/functions.h"

#include <algorithm>

#include "driver/call.h"
#include "driver/execution.h"
#include "driver/kernels.h"

namespace stratum::emulator::driver {
namespace {

// Of CUfunction_attribute.
constexpr int kMaxThreadsPerBlock = 0, kStaticShared = 1, kConstant = 2, kLocal = 3, kRegisterCount = 4,
              kBinaryVersion = 6, kMaxDynamicShared = 8, kCarveout = 9, kClusterMustBeSet = 10, kAnyCluster = 14;

template <typename F>
Result function_call(const char* name, Function* handle, F body) {
  return context_call(name, [&](State& s, Device& device) -> Result {
    Function* function = s.functions.find(handle);
    if (function == nullptr) return s.refuse(kInvalidHandle, std::string(name) + " of an unknown function");
    return body(s, device, *function);
  });
}

Result attribute(State& s, const Function& function, int attribute, int* value) {
  if (attribute == kMaxDynamicShared) return *value = function.max_dynamic_shared, kSuccess;
  if (attribute == kAnyCluster) return *value = function.any_cluster ? 1 : 0, kSuccess;
  const Kernel* kernel = nullptr;  // where nothing is run, there is no pack to ask
  if (s.execute) {
    if (const Result result = load_kernel(s, function, &kernel); result != kSuccess) return result;
  }
  switch (attribute) {
    case kMaxThreadsPerBlock:
      return *value = kernel != nullptr ? Kernels::get().row(function).block : kMaxThreads, kSuccess;
    case kStaticShared:
      return *value = kernel != nullptr ? static_cast<int>(kernel->static_shared_bytes()) : 0, kSuccess;
    case kRegisterCount:
      return *value = kernel != nullptr ? Kernels::get().row(function).registers : 0, kSuccess;
    case kBinaryVersion: {
      const DeviceFacts& facts = function.module->device->facts;
      return *value = 10 * facts.major + facts.minor, kSuccess;
    }
    case kConstant:
    case kLocal:
    case kClusterMustBeSet:
      return *value = 0, kSuccess;
    default:
      return s.refuse(kInvalidValue, "cuFuncGetAttribute: attribute " + std::to_string(attribute) + " isn't emulated");
  }
}

}  // namespace

Result resident_blocks(State& s, const Function& function, uint32_t threads, uint64_t dynamic_shared, int* blocks) {
  constexpr int kRegisterUnit = 256;  // registers are given to a warp in this many
  const DeviceFacts& facts = function.module->device->facts;
  int registers = 0, fixed = 0;
  if (const Result result = attribute(s, function, kRegisterCount, &registers); result != kSuccess) return result;
  if (const Result result = attribute(s, function, kStaticShared, &fixed); result != kSuccess) return result;
  const int warps = static_cast<int>((threads + kWarp - 1) / kWarp);
  const int reserved = facts.shared_per_multiprocessor - facts.shared_per_block;
  const auto shared = static_cast<int64_t>(dynamic_shared) + fixed + reserved;
  const int by_registers =
      registers == 0 ? facts.blocks_per_multiprocessor
                     : kRegisters / ((registers * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit) / warps;
  const int by_shared =
      shared == 0 ? facts.blocks_per_multiprocessor : static_cast<int>(facts.shared_per_multiprocessor / shared);
  const int by_threads = facts.threads_per_multiprocessor / (warps * kWarp);
  *blocks = std::min({by_registers, by_shared, by_threads, facts.blocks_per_multiprocessor});
  return kSuccess;
}

extern "C" {

Result cuFuncLoad(Function* handle) {
  return unsafe_call("cuFuncLoad", [&](State& s, Device&) {
    Function* function = s.functions.find(handle);
    if (function == nullptr) return s.refuse(kInvalidHandle, "cuFuncLoad of an unknown function");
    function->loaded = true;
    return kSuccess;
  });
}

Result cuFuncGetAttribute(int* value, int which, Function* handle) {
  return function_call("cuFuncGetAttribute", handle,
                       [&](State& s, Device&, Function& function) { return attribute(s, function, which, value); });
}

Result cuFuncSetAttribute(Function* handle, int which, int value) {
  return function_call("cuFuncSetAttribute", handle, [&](State& s, Device& device, Function& function) {
    if (which == kMaxDynamicShared && value >= 0 && value <= device.facts.shared_per_block) {
      function.max_dynamic_shared = value;
    } else if (which == kAnyCluster && (value == 0 || value == 1)) {
      function.any_cluster = value == 1;
    } else if (which != kCarveout || value < -1 || value > 100) {
      return s.refuse(kInvalidValue,
                      function.name + ": no attribute " + std::to_string(which) + " of value " + std::to_string(value));
    }
    return kSuccess;
  });
}

Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* handle, int threads, size_t shared_bytes) {
  const char* name = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
  return function_call(name, handle, [&](State& s, Device&, Function& function) {
    if (threads < 1 || threads > kMaxThreads) {
      return s.refuse(kInvalidValue,
                      std::string(name) + ": blockSize: expected 1 to 1024, got " + std::to_string(threads));
    }
    return resident_blocks(s, function, static_cast<uint32_t>(threads), shared_bytes, blocks);
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
