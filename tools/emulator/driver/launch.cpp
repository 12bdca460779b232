#include "driver/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "driver/call.h"
#include "driver/execution.h"
#include "driver/functions.h"
#include "driver/parameters.h"
#include "exec/program.h"

namespace stratum::emulator::driver {
namespace {

uint64_t product(const uint32_t (&extents)[3]) { return uint64_t{extents[0]} * extents[1] * extents[2]; }

std::string text_of(const uint32_t (&extents)[3]) {
  return std::to_string(extents[0]) + " x " + std::to_string(extents[1]) + " x " + std::to_string(extents[2]);
}

Result check_extents(State& s, const Function& function, const LaunchConfig& config) {
  constexpr uint32_t kMaxGrid[] = {2147483647, 65535, 65535}, kMaxBlock[] = {1024, 1024, 64};
  for (int axis = 0; axis < 3; ++axis) {
    if (config.grid[axis] < 1 || config.grid[axis] > kMaxGrid[axis]) {
      return s.refuse(kInvalidValue, function.name + ": a grid that no device takes: " + text_of(config.grid));
    }
    if (config.block[axis] < 1 || config.block[axis] > kMaxBlock[axis]) {
      return s.refuse(kInvalidValue, function.name + ": a block that no device takes: " + text_of(config.block));
    }
  }
  if (product(config.block) > kMaxThreads) {
    return s.refuse(kInvalidValue, function.name + ": a block that no device takes: " + text_of(config.block));
  }
  return kSuccess;
}

Result check_cluster(State& s, const Function& function, const LaunchConfig& config) {
  const uint64_t blocks = product(config.cluster);
  if (blocks == 1) return kSuccess;
  const int most = function.any_cluster ? 2 * kPortableCluster : kPortableCluster;
  bool divides = blocks > 0;
  for (int axis = 0; axis < 3 && divides; ++axis) divides = config.grid[axis] % config.cluster[axis] == 0;
  if (function.module->device->facts.major < 9 || !divides || blocks > static_cast<uint64_t>(most)) {
    return s.refuse(kInvalidClusterSize, function.name + ": a cluster of " + text_of(config.cluster) +
                                             " blocks in a grid of " + text_of(config.grid) +
                                             ": expected a device of " +
                                             "9.0 or later, a divisor of the grid, at most " + std::to_string(most));
  }
  if (s.execute) return s.refuse(kNotSupported, function.name + ": clusters aren't emulated");
  return kSuccess;
}

Result check_cooperative(State& s, const Function& function, const LaunchConfig& config) {
  if (!config.cooperative) return kSuccess;
  int resident = 0;
  const auto threads = static_cast<uint32_t>(product(config.block));
  const Result result = resident_blocks(s, function, threads, config.shared_bytes, &resident);
  if (result != kSuccess) return result;
  const int most = resident * function.module->device->facts.multiprocessors;
  if (product(config.grid) <= static_cast<uint64_t>(most)) return kSuccess;
  return s.refuse(kCooperativeLaunchTooLarge, function.name + ": a cooperative launch of " + text_of(config.grid) +
                                                  " blocks, the device holds " + std::to_string(most));
}

// Where a launch's parameters are in its record; nullopt where nothing says it. `kernel` is null if nothing is
// executed.
std::optional<std::vector<ParameterPlace>> recorded_places(const Function& function, const Kernel* kernel) {
  std::vector<ParameterPlace> places;
  if (kernel != nullptr) {
    for (const auto& [offset, bytes] : kernel->program().parameters) places.push_back({offset, bytes});
    return places;
  }
  const auto found = parameter_places(function.module->image, function.name);
  if (!found) return std::nullopt;
  for (const auto& [offset, bytes] : *found) places.push_back({offset - found->front().offset, bytes});
  return places;
}

// A launch's parameters as they lie in memory, out of a pointer to each.
Result gather(State& s, const Function& function, const Kernel* kernel, void** params, std::vector<uint8_t>& bytes) {
  const auto places = recorded_places(function, kernel);
  if (!places) {
    return s.refuse(kNotSupported, function.name + ": kernelParams where nothing is executed, and the image doesn't " +
                                       "say their sizes: expected a cubin, or NAME(BYTES) in a text");
  }
  bytes.resize(kernel != nullptr ? kernel->parameter_bytes()
               : places->empty() ? 0
                                 : places->back().offset + places->back().bytes);
  for (size_t i = 0; i < places->size(); ++i) {
    const auto& [offset, size] = (*places)[i];
    if (params == nullptr || params[i] == nullptr) {
      return s.refuse(kInvalidValue, function.name + ": kernelParams[" + std::to_string(i) +
                                         "]: expected a pointer to " + std::to_string(size) + " bytes, got null");
    }
    std::memcpy(bytes.data() + offset, params[i], size);
  }
  return kSuccess;
}

// A buffer is copied to where a launch's parameters begin, whatever place the kernel reads its first one from.
Result check_buffer_reaches(State& s, const Function& function) {
  const auto places = parameter_places(function.module->image, function.name);
  if (!places || places->empty() || places->front().offset == 0) return kSuccess;
  return s.refuse(kInvalidValue, function.name + ": extra: the kernel would read " +
                                     std::to_string(places->front().offset) +
                                     " bytes beside the buffer, for its first parameter is aligned more strictly " +
                                     "than the place where parameters begin: expected kernelParams");
}

// A launch's parameters: a pointer to each in `params`, or all as one buffer in `extra`.
Result take_params(State& s, const Function& function, void** params, void** extra, std::vector<uint8_t>& bytes) {
  const Kernel* kernel = nullptr;
  if (s.execute) {
    if (const Result result = load_kernel(s, function, &kernel); result != kSuccess) return result;
  }
  if (extra == nullptr) return gather(s, function, kernel, params, bytes);
  if (params != nullptr) return s.refuse(kInvalidValue, function.name + ": both kernelParams and extra are given");
  // CU_LAUNCH_PARAM_BUFFER_POINTER, its address, CU_LAUNCH_PARAM_BUFFER_SIZE, its size, CU_LAUNCH_PARAM_END
  const auto mark = [&](int i) { return reinterpret_cast<uintptr_t>(extra[i]); };
  if (mark(0) != 1 || mark(2) != 2 || mark(4) != 0) {
    return s.refuse(kInvalidValue, function.name + ": extra: expected a buffer, then its size");
  }
  if (const Result result = check_buffer_reaches(s, function); result != kSuccess) return result;
  const auto* first = static_cast<const uint8_t*>(extra[1]);
  bytes.assign(first, first + *static_cast<const size_t*>(extra[3]));
  if (kernel == nullptr || bytes.size() == kernel->parameter_bytes()) return kSuccess;
  return s.refuse(kInvalidValue, function.name + ": parameters: given " + std::to_string(bytes.size()) +
                                     " bytes, takes " + std::to_string(kernel->parameter_bytes()));
}

// Pointers in a launch's parameters must not lead into freed memory.
void check_params(State& s, const Launch& launch) {
  for (size_t at = 0; at + 8 <= launch.params.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, launch.params.data() + at, 8);
    const Allocation* allocation = s.memory.find(word);
    if (allocation != nullptr && allocation->given_back) {
      s.fault(launch.kernel + ": parameter at byte " + std::to_string(at) + " points into freed memory, " +
              describe(*allocation));
    }
  }
}

void log(const State& s, const Launch& launch) {
  std::FILE* file = std::fopen(s.settings.log.c_str(), "a");
  if (file == nullptr) return;  // it could be written when the process began
  const auto& [x, y, z] = launch.grid;
  const auto& [u, v, w] = launch.block;
  std::fprintf(file, "%s grid %u,%u,%u block %u,%u,%u shared %u stream %#llx parameters %zu\n", launch.kernel.c_str(),
               x, y, z, u, v, w, launch.shared_bytes, static_cast<unsigned long long>(launch.stream),
               launch.params.size());
  std::fclose(file);
}

Result launch_kernel(const char* name, Function* handle, const LaunchConfig& config, void** params, void** extra) {
  return stream_call(name, config.stream, [&](State& s, Stream& stream) -> Result {
    Function* function = s.functions.find(handle);
    if (function == nullptr) return s.refuse(kInvalidHandle, std::string(name) + " of an unknown function");
    if (function->module->device != stream.device) {
      return s.refuse(kInvalidHandle, std::string(name) + " of another device's kernel");
    }
    if (stream.capture && !function->loaded) s.fault(function->name + ": first load inside a capture");
    std::shared_ptr<Launch> launch;
    const Result result = check_launch(s, *function, config, params, extra, &launch);
    if (result != kSuccess) return result;
    launch->captured = stream.capture != nullptr;
    launch->call = thread_state().call;
    if (launch->call && launch->captured) launch->call->unwatched = true;
    record(s, launch);
    return submit(s, stream, kernel_work(s, function, launch));
  });
}

// CUlaunchConfig and CUlaunchAttribute.
struct Attribute {
  int id;
  alignas(8) unsigned char value[64];
};
struct ExtendedConfig {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  const Attribute* attributes;
  unsigned count;
};

// Takes a launch's attributes over; false for one that isn't emulated. Programmatic serialisation permits a kernel to
// begin before the one before it has ended: that it begins after is one of the orders that are permitted.
bool apply(const Attribute& attribute, LaunchConfig& config) {
  constexpr int kIgnore = 0, kCooperative = 2, kCluster = 4, kClusterScheduling = 5, kProgrammaticSerialization = 6,
                kPriority = 8;
  switch (attribute.id) {
    case kIgnore:
    case kClusterScheduling:
    case kProgrammaticSerialization:
    case kPriority:
      return true;
    case kCooperative: {
      int value = 0;
      std::memcpy(&value, attribute.value, sizeof(value));
      config.cooperative = value != 0;
      return true;
    }
    case kCluster:
      std::memcpy(config.cluster, attribute.value, sizeof(config.cluster));
      return true;
    default:
      return false;
  }
}

}  // namespace

Result check_launch(State& s, const Function& function, const LaunchConfig& config, void** params, void** extra,
                    std::shared_ptr<Launch>* launch) {
  for (const auto check : {check_extents, check_cluster, check_cooperative}) {
    if (const Result result = check(s, function, config); result != kSuccess) return result;
  }
  if (config.shared_bytes > static_cast<unsigned>(function.max_dynamic_shared)) {
    return s.refuse(kInvalidValue, function.name + ": more dynamic shared memory than was permitted: " +
                                       std::to_string(config.shared_bytes) + " bytes, permitted " +
                                       std::to_string(function.max_dynamic_shared));
  }
  *launch = std::make_shared<Launch>();
  Launch& made = **launch;
  if (const Result result = take_params(s, function, params, extra, made.params); result != kSuccess) return result;
  made.kernel = function.name;
  made.stream = reinterpret_cast<uint64_t>(config.stream);
  std::copy_n(config.grid, 3, made.grid);
  std::copy_n(config.block, 3, made.block);
  std::copy_n(config.cluster, 3, made.cluster);
  made.shared_bytes = config.shared_bytes;
  made.cooperative = config.cooperative;
  made.device = function.module->device->context.device;
  return kSuccess;
}

void record(State& s, std::shared_ptr<const Launch> launch) {
  check_params(s, *launch);
  if (!s.settings.log.empty()) log(s, *launch);
  s.launches.push_back(std::move(launch));
}

Work kernel_work(State& s, Function* function, std::shared_ptr<const Launch> launch) {
  const auto run = [&s, function, launch]() -> Result {
    if (s.functions.find(function) == nullptr) {
      return s.refuse(kInvalidHandle, launch->kernel + ": its module was unloaded before it ran");
    }
    return execute(s, *function, *launch);
  };
  return {WorkKind::Kernel, run, function, std::move(launch)};
}

extern "C" {

Result cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** params,
                      void** extra) {
  const LaunchConfig config = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream};
  return launch_kernel("cuLaunchKernel", function, config, params, extra);
}

Result cuLaunchCooperativeKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 void* stream, void** params) {
  LaunchConfig config = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream};
  config.cooperative = true;
  return launch_kernel("cuLaunchCooperativeKernel", function, config, params, nullptr);
}

Result cuLaunchKernelEx(const ExtendedConfig* given, Function* function, void** params, void** extra) {
  LaunchConfig config = {{given->grid[0], given->grid[1], given->grid[2]},
                         {given->block[0], given->block[1], given->block[2]},
                         given->shared_bytes,
                         given->stream};
  for (unsigned i = 0; i < given->count; ++i) {
    if (apply(given->attributes[i], config)) continue;
    return context_call("cuLaunchKernelEx", [&](State& s, Device&) {
      return s.refuse(kNotSupported,
                      "cuLaunchKernelEx: attribute " + std::to_string(given->attributes[i].id) + " isn't emulated");
    });
  }
  return launch_kernel("cuLaunchKernelEx", function, config, params, extra);
}

}  // extern "C"

}  // namespace stratum::emulator::driver
