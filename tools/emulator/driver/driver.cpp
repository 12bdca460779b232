// libcuda's functions, as far as the runtime uses them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "driver/execution.h"
#include "driver/state.h"

namespace {

using namespace stratum::emulator::driver;

// Runs the body of an exported function: counts the call, fails it if a test asked for that, refuses it where no
// function may be called.
template <typename F>
Result call(const char* name, F body) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  ++s.calls[name];
  if (s.fail_in > 0 && s.fail_function == name && --s.fail_in == 0) return static_cast<Result>(s.fail_code);
  if (s.process != getpid()) {
    s.fault(std::string(name) + " in a forked process");
    return kNotInitialized;
  }
  if (!s.initialized && std::string_view(name) != "cuInit") return kNotInitialized;
  return body(s);
}

// A function that needs a current context.
template <typename F>
Result context_call(const char* name, F body) {
  return call(name, [&](State& s) {
    if (thread_state().contexts.empty()) {
      s.fault(std::string(name) + " without a current context");
      return kInvalidContext;
    }
    return body(s, *s.devices[thread_state().contexts.back()->device]);
  });
}

// A function that breaks a capture in progress, unless this thread asked for relaxed mode.
template <typename F>
Result synchronizing_call(const char* name, F body) {
  return context_call(name, [&](State& s, Device& device) {
    constexpr int kRelaxed = 2;
    if (s.capturing() && thread_state().capture_mode != kRelaxed) {
      s.fault(std::string(name) + " while a stream is being captured");
      for (Stream* stream : s.streams) {
        if (stream->capture) stream->capture->broken = true;
      }
      return kCaptureUnsupported;
    }
    return body(s, device);
  });
}

Result invalid(State& s, const char* what) {
  s.fault(what);
  return kInvalidHandle;
}

// The stream of a handle, or null if there is none.
Stream* find_stream(State& s, Device& device, void* handle) {
  constexpr uintptr_t kLegacy = 1, kPerThread = 2;
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == 0 || value == kLegacy) return &device.default_stream;
  if (value == kPerThread) return &device.per_thread_stream;
  auto* stream = static_cast<Stream*>(handle);
  if (!s.streams.contains(stream) || stream->device != device.context.device) return nullptr;
  return stream;
}

// Operations on the legacy stream would wait for a captured one, and so may not happen.
bool implicitly_captured(State& s, Device& device, const Stream* stream) {
  return stream == &device.default_stream && s.capturing();
}

Result allocate(State& s, uint64_t* address, size_t bytes, bool pinned) {
  if (bytes == 0) return kInvalidValue;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<uint64_t>(memory);
  s.memory[*address] = {bytes, pinned};
  return kSuccess;
}

// The addresses stay taken, so a later use of them is seen.
Result release(State& s, const char* name, uint64_t address, bool pinned) {
  const auto entry = s.memory.find(address);
  if (entry == s.memory.end() || entry->second.pinned != pinned) {
    s.fault(std::string(name) + " of an address that was never allocated");
    return kInvalidValue;
  }
  if (!entry->second.live) {
    s.fault(std::string(name) + " of memory that is free already");
    return kInvalidValue;
  }
  const auto reads_it = [&](const Copy& copy) {
    const auto source = reinterpret_cast<uintptr_t>(copy.source);
    return source >= address && source < address + entry->second.bytes;
  };
  if (std::erase_if(s.copies, reads_it) > 0) {
    s.fault(std::string(name) + " of page-locked memory that a copy may be reading");
  }
  entry->second.live = false;
  s.shadows.drop(address);
  mmap(reinterpret_cast<void*>(address), entry->second.bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return kSuccess;
}

bool is_live(const State& s, uint64_t address, size_t bytes) {
  const Allocation* first = s.find(address);
  return first != nullptr && first->live && first == s.find(address + bytes - 1);
}

// A stream's operations up to one of them are done, and with them what they waited for. What the copies among them read
// must still be what it was.
void complete(State& s, const Stream* stream, uint64_t order) {
  std::erase_if(s.copies, [&](const Copy& copy) {
    if (copy.stream != stream || copy.order > order) return false;
    if (std::memcmp(copy.source, copy.content.data(), copy.bytes) != 0) {
      s.fault("page-locked memory was written while a copy from it could be running");
    }
    return true;
  });
  std::vector<Wait> done;
  std::erase_if(s.waits, [&](const Wait& wait) {
    if (wait.stream != stream || wait.order > order) return false;
    done.push_back(wait);
    return true;
  });
  for (const Wait& wait : done) complete(s, wait.awaited, wait.awaited_order);
}

size_t image_bytes(const void* image) {
  const auto* bytes = static_cast<const uint8_t*>(image);
  if (std::memcmp(bytes, "\177ELF", 4) != 0) return std::strlen(static_cast<const char*>(image));
  uint64_t sections = 0, segments = 0;
  uint16_t segment_bytes = 0, segment_count = 0, section_bytes = 0, section_count = 0;
  std::memcpy(&segments, bytes + 32, 8);
  std::memcpy(&sections, bytes + 40, 8);
  std::memcpy(&segment_bytes, bytes + 54, 2);
  std::memcpy(&segment_count, bytes + 56, 2);
  std::memcpy(&section_bytes, bytes + 58, 2);
  std::memcpy(&section_count, bytes + 60, 2);
  return std::max(segments + segment_bytes * segment_count, sections + section_bytes * section_count);
}

// Pointers in a launch's parameters must not lead into freed memory.
void check_params(State& s, const Launch& launch) {
  for (size_t at = 0; at + 8 <= launch.params.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, launch.params.data() + at, 8);
    const Allocation* allocation = s.find(word);
    if (allocation != nullptr && !allocation->live) {
      s.fault(launch.kernel + ": parameter at byte " + std::to_string(at) + " points into freed memory");
    }
  }
}

}  // namespace

extern "C" {

Result cuInit(unsigned flags) {
  return call("cuInit", [&](State& s) {
    if (flags != 0) return kInvalidValue;
    s.initialized = true;
    return kSuccess;
  });
}

Result cuGetErrorName(int code, const char** name) {
  switch (code) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      break;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case kNotInitialized:
      *name = "CUDA_ERROR_NOT_INITIALIZED";
      break;
    case kInvalidDevice:
      *name = "CUDA_ERROR_INVALID_DEVICE";
      break;
    case kInvalidContext:
      *name = "CUDA_ERROR_INVALID_CONTEXT";
      break;
    case kNoBinaryForGpu:
      *name = "CUDA_ERROR_NO_BINARY_FOR_GPU";
      break;
    case kInvalidHandle:
      *name = "CUDA_ERROR_INVALID_HANDLE";
      break;
    case kNotFound:
      *name = "CUDA_ERROR_NOT_FOUND";
      break;
    case kCaptureUnsupported:
      *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
      break;
    case kCaptureImplicit:
      *name = "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
      break;
    case 999:
      *name = "CUDA_ERROR_UNKNOWN";
      break;
    default:
      *name = nullptr;
      return kInvalidValue;
  }
  return kSuccess;
}

Result cuGetErrorString(int code, const char** text) {
  const char* name = nullptr;
  *text = cuGetErrorName(code, &name) == kSuccess ? "a failure of the emulator" : nullptr;
  return *text != nullptr ? kSuccess : kInvalidValue;
}

Result cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", [&](State& s) {
    *count = static_cast<int>(s.devices.size());
    return kSuccess;
  });
}

Result cuDeviceGet(int* device, int ordinal) {
  return call("cuDeviceGet", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

Result cuDeviceGetName(char* name, int bytes, int device) {
  return call("cuDeviceGetName", [&](State&) {
    std::strncpy(name, ("Emulated GPU " + std::to_string(device)).c_str(), static_cast<size_t>(bytes) - 1);
    name[bytes - 1] = '\0';
    return kSuccess;
  });
}

Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int kMajor = 75, kMinor = 76;
  return call("cuDeviceGetAttribute", [&](State& s) {
    if (attribute != kMajor && attribute != kMinor) return kInvalidValue;
    *value = attribute == kMajor ? s.devices.at(device)->major : s.devices.at(device)->minor;
    return kSuccess;
  });
}

Result cuDevicePrimaryCtxRetain(Context** context, int device) {
  return call("cuDevicePrimaryCtxRetain", [&](State& s) {
    *context = &s.devices.at(device)->context;
    return kSuccess;
  });
}

Result cuCtxGetCurrent(Context** context) {
  return call("cuCtxGetCurrent", [&](State&) {
    const auto& contexts = thread_state().contexts;
    *context = contexts.empty() ? nullptr : contexts.back();
    return kSuccess;
  });
}

Result cuCtxGetDevice(int* device) {
  return call("cuCtxGetDevice", [&](State&) {
    if (thread_state().contexts.empty()) return kInvalidContext;
    *device = thread_state().contexts.back()->device;
    return kSuccess;
  });
}

Result cuCtxPushCurrent_v2(Context* context) {
  return call("cuCtxPushCurrent_v2", [&](State&) {
    thread_state().contexts.push_back(context);
    return kSuccess;
  });
}

Result cuCtxSetCurrent(Context* context) {
  return call("cuCtxSetCurrent", [&](State&) {
    std::vector<Context*>& contexts = thread_state().contexts;
    if (!contexts.empty()) contexts.pop_back();
    if (context != nullptr) contexts.push_back(context);
    return kSuccess;
  });
}

Result cuCtxSynchronize() {
  return synchronizing_call("cuCtxSynchronize", [&](State&, Device&) { return kSuccess; });
}

Result cuCtxPopCurrent_v2(Context** context) {
  return context_call("cuCtxPopCurrent_v2", [&](State&, Device&) {
    *context = thread_state().contexts.back();
    thread_state().contexts.pop_back();
    return kSuccess;
  });
}

Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  return synchronizing_call("cuMemAlloc_v2", [&](State& s, Device&) { return allocate(s, address, bytes, false); });
}

Result cuMemFree_v2(uint64_t address) {
  return synchronizing_call("cuMemFree_v2",
                            [&](State& s, Device&) { return release(s, "cuMemFree_v2", address, false); });
}

Result cuMemAllocAsync(uint64_t* address, size_t bytes, void* stream) {
  return context_call("cuMemAllocAsync", [&](State& s, Device& device) {
    if (find_stream(s, device, stream) == nullptr) return invalid(s, "cuMemAllocAsync on an unknown stream");
    return allocate(s, address, bytes, false);
  });
}

Result cuMemFreeAsync(uint64_t address, void* stream) {
  return context_call("cuMemFreeAsync", [&](State& s, Device& device) {
    if (find_stream(s, device, stream) == nullptr) return invalid(s, "cuMemFreeAsync on an unknown stream");
    return release(s, "cuMemFreeAsync", address, false);
  });
}

Result cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  return synchronizing_call("cuMemHostAlloc", [&](State& s, Device&) {
    return allocate(s, reinterpret_cast<uint64_t*>(memory), bytes, true);
  });
}

Result cuMemFreeHost(void* memory) {
  return synchronizing_call("cuMemFreeHost", [&](State& s, Device&) {
    return release(s, "cuMemFreeHost", reinterpret_cast<uint64_t>(memory), true);
  });
}

Result cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void* stream) {
  return context_call("cuMemsetD8Async", [&](State& s, Device& device) {
    if (find_stream(s, device, stream) == nullptr) return invalid(s, "cuMemsetD8Async on an unknown stream");
    if (!is_live(s, address, bytes)) return invalid(s, "cuMemsetD8Async outside an allocation");
    std::memset(reinterpret_cast<void*>(address), value, bytes);
    mark_written(s, address, bytes);
    return kSuccess;
  });
}

Result cuMemcpyHtoD_v2(uint64_t target, const void* source, size_t bytes) {
  return synchronizing_call("cuMemcpyHtoD_v2", [&](State& s, Device&) {
    if (!is_live(s, target, bytes)) return invalid(s, "cuMemcpyHtoD_v2 outside an allocation");
    std::memcpy(reinterpret_cast<void*>(target), source, bytes);
    mark_written(s, target, bytes);
    return kSuccess;
  });
}

Result cuMemcpyDtoH_v2(void* target, uint64_t source, size_t bytes) {
  return synchronizing_call("cuMemcpyDtoH_v2", [&](State& s, Device&) {
    if (!is_live(s, source, bytes)) return invalid(s, "cuMemcpyDtoH_v2 outside an allocation");
    std::memcpy(target, reinterpret_cast<const void*>(source), bytes);
    return kSuccess;
  });
}

Result cuMemcpyHtoDAsync_v2(uint64_t target, const void* source, size_t bytes, void* handle) {
  return context_call("cuMemcpyHtoDAsync_v2", [&](State& s, Device& device) {
    Stream* stream = find_stream(s, device, handle);
    if (stream == nullptr) return invalid(s, "cuMemcpyHtoDAsync_v2 on an unknown stream");
    if (!is_live(s, target, bytes)) return invalid(s, "cuMemcpyHtoDAsync_v2 outside an allocation");
    const auto* from = static_cast<const uint8_t*>(source);
    const Allocation* pinned = s.find(reinterpret_cast<uintptr_t>(source));
    if (pinned != nullptr && pinned->pinned) {
      for (const Copy& copy : s.copies) {
        if (from < copy.source + copy.bytes && copy.source < from + bytes) {
          s.fault("page-locked memory is used again while a copy from it could be running");
        }
      }
      s.copies.push_back({from, bytes, stream, ++s.operations, {from, from + bytes}});
    }
    std::memcpy(reinterpret_cast<void*>(target), source, bytes);
    mark_written(s, target, bytes);
    return kSuccess;
  });
}

Result cuModuleLoadData(Module** module, const void* image) {
  return synchronizing_call("cuModuleLoadData", [&](State& s, Device& device) {
    *module = new Module{device.context.device, {static_cast<const char*>(image), image_bytes(image)}};
    s.modules.insert(*module);
    return kSuccess;
  });
}

Result cuModuleUnload(Module* module) {
  return synchronizing_call("cuModuleUnload", [&](State& s, Device&) {
    if (s.modules.erase(module) == 0) return invalid(s, "cuModuleUnload of an unknown module");
    std::erase_if(s.functions, [&](Function* function) {
      const bool dead = function->module == module;
      if (dead) delete function;
      return dead;
    });
    delete module;
    return kSuccess;
  });
}

Result cuModuleGetFunction(Function** function, Module* module, const char* name) {
  return context_call("cuModuleGetFunction", [&](State& s, Device&) {
    if (!s.modules.contains(module)) return invalid(s, "cuModuleGetFunction of an unknown module");
    if (module->image.find(name) == std::string::npos) return kNotFound;
    *function = new Function{module, name};
    s.functions.insert(*function);
    return kSuccess;
  });
}

Result cuFuncLoad(Function* function) {
  return synchronizing_call("cuFuncLoad", [&](State& s, Device&) {
    if (!s.functions.contains(function)) return invalid(s, "cuFuncLoad of an unknown function");
    function->loaded = true;
    return kSuccess;
  });
}

Result cuFuncSetAttribute(Function* function, int attribute, int value) {
  constexpr int kMaxDynamicShared = 8;
  return context_call("cuFuncSetAttribute", [&](State& s, Device& device) {
    if (!s.functions.contains(function)) return invalid(s, "cuFuncSetAttribute of an unknown function");
    if (attribute != kMaxDynamicShared || value < 0 || value > device.max_dynamic_shared()) return kInvalidValue;
    function->max_dynamic_shared = value;
    return kSuccess;
  });
}

Result cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, void* handle, void** params,
                      void** extra) {
  return context_call("cuLaunchKernel", [&](State& s, Device& device) {
    if (!s.functions.contains(function)) return invalid(s, "cuLaunchKernel of an unknown function");
    Stream* stream = find_stream(s, device, handle);
    if (stream == nullptr) return invalid(s, "cuLaunchKernel on an unknown stream");
    if (function->module->device != device.context.device)
      return invalid(s, "cuLaunchKernel of another device's kernel");
    if (implicitly_captured(s, device, stream)) return kCaptureImplicit;
    if (s.capturing() && !function->loaded) s.fault(function->name + ": first load inside a capture");
    const bool grid_fits =
        grid_x >= 1 && grid_x <= 2147483647u && grid_y >= 1 && grid_y <= 65535 && grid_z >= 1 && grid_z <= 65535;
    const uint64_t threads = uint64_t{block_x} * block_y * block_z;
    if (!grid_fits || threads < 1 || threads > 1024) {
      s.fault(function->name + ": a grid or block that no device takes");
      return kInvalidValue;
    }
    if (shared_bytes > static_cast<unsigned>(function->max_dynamic_shared)) {
      s.fault(function->name + ": more dynamic shared memory than was permitted");
      return kInvalidValue;
    }
    // CU_LAUNCH_PARAM_BUFFER_POINTER, its address, CU_LAUNCH_PARAM_BUFFER_SIZE, its size, CU_LAUNCH_PARAM_END
    const auto mark = [&](int i) { return reinterpret_cast<uintptr_t>(extra[i]); };
    if (params != nullptr || extra == nullptr || mark(0) != 1 || mark(2) != 2 || mark(4) != 0) {
      s.fault(function->name + ": parameters not given as one buffer");
      return kInvalidValue;
    }
    const auto* bytes = static_cast<const uint8_t*>(extra[1]);
    auto launch = std::make_unique<Launch>(Launch{function->name,
                                                  {bytes, bytes + *static_cast<size_t*>(extra[3])},
                                                  reinterpret_cast<uint64_t>(handle),
                                                  {grid_x, grid_y, grid_z},
                                                  {block_x, block_y, block_z},
                                                  shared_bytes,
                                                  device.context.device,
                                                  stream->capture.has_value(),
                                                  thread_state().call});
    if (launch->call && launch->captured) launch->call->unwatched = true;
    check_params(s, *launch);
    s.launches.push_back(std::move(launch));
    ++s.operations;
    return static_cast<Result>(execute(s, *function, *s.launches.back()));
  });
}

Result cuEventCreate(Event** event, unsigned) {
  return context_call("cuEventCreate", [&](State& s, Device& device) {
    *event = new Event{device.context.device};
    s.events.insert(*event);
    return kSuccess;
  });
}

Result cuEventDestroy_v2(Event* event) {
  return context_call("cuEventDestroy_v2", [&](State& s, Device&) {
    if (s.events.erase(event) == 0) return invalid(s, "cuEventDestroy_v2 of an unknown event");
    delete event;
    return kSuccess;
  });
}

Result cuEventRecord(Event* event, void* handle) {
  return context_call("cuEventRecord", [&](State& s, Device& device) {
    Stream* stream = find_stream(s, device, handle);
    if (stream == nullptr) return invalid(s, "cuEventRecord on an unknown stream");
    if (!s.events.contains(event)) return invalid(s, "cuEventRecord of an unknown event");
    event->stream = stream;
    event->order = ++s.operations;
    return kSuccess;
  });
}

Result cuEventSynchronize(Event* event) {
  return synchronizing_call("cuEventSynchronize", [&](State& s, Device&) {
    if (!s.events.contains(event)) return invalid(s, "cuEventSynchronize of an unknown event");
    complete(s, event->stream, event->order);
    return kSuccess;
  });
}

Result cuStreamWaitEvent(void* handle, Event* event, unsigned) {
  return context_call("cuStreamWaitEvent", [&](State& s, Device& device) {
    Stream* stream = find_stream(s, device, handle);
    if (stream == nullptr) return invalid(s, "cuStreamWaitEvent on an unknown stream");
    if (!s.events.contains(event)) return invalid(s, "cuStreamWaitEvent for an unknown event");
    if (event->stream != nullptr) s.waits.push_back({stream, ++s.operations, event->stream, event->order});
    return kSuccess;
  });
}

Result cuStreamSynchronize(void* handle) {
  return synchronizing_call("cuStreamSynchronize", [&](State& s, Device& device) {
    Stream* stream = find_stream(s, device, handle);
    if (stream == nullptr) return invalid(s, "cuStreamSynchronize of an unknown stream");
    complete(s, stream, s.operations);
    return kSuccess;
  });
}

Result cuStreamIsCapturing(void* handle, int* status) {
  return context_call("cuStreamIsCapturing", [&](State& s, Device& device) {
    Stream* stream = find_stream(s, device, handle);
    if (stream == nullptr) return kInvalidHandle;
    if (implicitly_captured(s, device, stream)) return kCaptureImplicit;
    *status = stream->capture.has_value() ? 1 : 0;
    return kSuccess;
  });
}

Result cuStreamGetId(void* handle, unsigned long long* id) {
  return context_call("cuStreamGetId", [&](State& s, Device& device) {
    Stream* stream = find_stream(s, device, handle);
    if (stream == nullptr) return invalid(s, "cuStreamGetId of an unknown stream");
    *id = stream->id;
    return kSuccess;
  });
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return call("cuThreadExchangeStreamCaptureMode", [&](State&) {
    std::swap(*mode, thread_state().capture_mode);
    return kSuccess;
  });
}

}  // extern "C"
