#include "driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <type_traits>

#include "error.h"

namespace stratum::cuda {
namespace {

constexpr const char* kDefaultLibrary = "libcuda.so.1";

// The process that initialised the driver; 0 before.
std::atomic<pid_t> initialized_by = 0;

void* open_library() {
  const char* chosen = std::getenv("STRATUM_DRIVER");
  const bool is_default = chosen == nullptr || *chosen == '\0';
  const char* name = is_default ? kDefaultLibrary : chosen;
  if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  const char* reason = dlerror();
  fail(STRATUM_DRIVER_ERROR, is_default ? "" : "STRATUM_DRIVER", "cannot open the CUDA driver library {}: {}{}", name,
       reason, is_default ? "; is the NVIDIA driver installed?" : "");
}

void* resolve(void* library, const char* symbol) {
  if (void* address = dlsym(library, symbol)) return address;
  fail(STRATUM_DRIVER_ERROR, "", "the CUDA driver library has no {}: it is older than CUDA 12.4", symbol);
}

// A stand-in driver says by this function, which libcuda lacks, that its device memory is host memory.
bool has_host_memory(void* library) {
  const auto function = reinterpret_cast<int (*)()>(dlsym(library, "stratum_driver_host_memory"));
  return function != nullptr && function() == 1;
}

}  // namespace

template <typename... Args>
Call<Args...>::Call(void* library, const char* symbol)
    : symbol_(symbol), function_(reinterpret_cast<Result (*)(Args...)>(resolve(library, symbol))) {}

Observer::Observer(void* library) {
  const auto find = [library](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
  };
  find(begin, "stratum_driver_call_begin");
  find(array, "stratum_driver_call_array");
  find(end, "stratum_driver_call_end");
  find(name, "stratum_driver_name");
  find(forget, "stratum_driver_forget");
  find(forget_pages, "stratum_driver_forget_pages");
}

// clang-format off
Driver::Driver(void* library)
    : init(library, "cuInit"),
      get_error_name(library, "cuGetErrorName"),
      get_error_string(library, "cuGetErrorString"),
      device_get_count(library, "cuDeviceGetCount"),
      device_get(library, "cuDeviceGet"),
      device_get_name(library, "cuDeviceGetName"),
      device_get_attribute(library, "cuDeviceGetAttribute"),
      primary_context_retain(library, "cuDevicePrimaryCtxRetain"),
      context_get_current(library, "cuCtxGetCurrent"),
      context_get_device(library, "cuCtxGetDevice"),
      context_push(library, "cuCtxPushCurrent_v2"),
      context_pop(library, "cuCtxPopCurrent_v2"),
      memory_allocate(library, "cuMemAlloc_v2"),
      memory_free(library, "cuMemFree_v2"),
      memory_allocate_async(library, "cuMemAllocAsync"),
      memory_free_async(library, "cuMemFreeAsync"),
      host_allocate(library, "cuMemHostAlloc"),
      host_free(library, "cuMemFreeHost"),
      memory_set_async(library, "cuMemsetD8Async"),
      copy_to_device_async(library, "cuMemcpyHtoDAsync_v2"),
      module_load_data(library, "cuModuleLoadData"),
      module_unload(library, "cuModuleUnload"),
      module_get_function(library, "cuModuleGetFunction"),
      function_load(library, "cuFuncLoad"),
      function_set_attribute(library, "cuFuncSetAttribute"),
      launch_kernel(library, "cuLaunchKernel"),
      launch_cooperative_kernel(library, "cuLaunchCooperativeKernel"),
      tensor_map_encode_tiled(library, "cuTensorMapEncodeTiled"),
      event_create(library, "cuEventCreate"),
      event_destroy(library, "cuEventDestroy_v2"),
      event_record(library, "cuEventRecord"),
      event_synchronize(library, "cuEventSynchronize"),
      stream_wait_event(library, "cuStreamWaitEvent"),
      stream_synchronize(library, "cuStreamSynchronize"),
      stream_is_capturing(library, "cuStreamIsCapturing"),
      stream_get_id(library, "cuStreamGetId"),
      thread_exchange_capture_mode(library, "cuThreadExchangeStreamCaptureMode"),
      host_memory(has_host_memory(library)),
      observer(library) {}
// clang-format on

const Driver& driver() {
  // Never destroyed: at exit, engines may outlive every static object.
  static const Driver* const instance = new Driver(open_library());
  return *instance;
}

void throw_driver_error(const char* call, Result result, std::string_view kernel) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver().get_error_name.attempt(result, &name);
  driver().get_error_string.attempt(result, &text);
  fail(STRATUM_DRIVER_ERROR, "", "{} failed: {} ({}){}{}", call,
       name != nullptr ? name : fmt::format("error {}", result), text != nullptr ? text : "unknown to this driver",
       kernel.empty() ? "" : ", kernel ", kernel);
}

void initialize() {
  check_not_forked();
  driver().init(0);
  initialized_by = getpid();
}

bool forked() {
  const pid_t process = initialized_by;
  return process != 0 && process != getpid();
}

void check_not_forked() {
  if (forked()) {
    fail(STRATUM_DEVICE_ERROR, "",
         "CUDA was initialised before this process was forked and cannot be used in it; start workers by spawn, or "
         "build the engine in the child");
  }
}

}  // namespace stratum::cuda
