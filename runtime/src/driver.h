// The CUDA driver, opened at run time: libcuda.so.1, or the library that the environment's STRATUM_DRIVER names.
//
// The few declarations needed are our own, so that building the library needs no CUDA toolkit. Names follow cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stratum::cuda {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorDeinitialized = 4;
inline constexpr Result kErrorCaptureImplicit = 906;  // the legacy stream, while another stream is capturing

inline constexpr int kMultiprocessorCount = 16;  // device attributes
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMaxDynamicSharedBytes = 8;  // function attribute
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kCaptureModeRelaxed = 2;

// Of cuTensorMapEncodeTiled. No arithmetic is done on elements: any 16-bit type is moved as integers.
inline constexpr int kTensorMapUint16 = 1;
inline constexpr int kTensorMapNoInterleave = 0;
inline constexpr int kTensorMapSwizzle64 = 2, kTensorMapSwizzle128 = 3;  // bytes
inline constexpr int kTensorMapPromote128 = 2, kTensorMapPromote256 = 3;  // bytes that a miss brings into the L2 cache
inline constexpr int kTensorMapFillZeros = 0;

// Throws Error (DRIVER_ERROR) with the call, the error's name and text, and the kernel if there is one.
[[noreturn]] void throw_driver_error(const char* call, Result result, std::string_view kernel = {});

// One function of the driver. Calling it throws on failure.
template <typename... Args>
class Call {
 public:
  Call(void* library, const char* symbol);

  void operator()(Args... args) const {
    if (const Result result = function_(args...); result != kSuccess) throw_driver_error(symbol_, result);
  }

  // The result instead of an exception.
  Result attempt(Args... args) const { return function_(args...); }

  const char* symbol() const { return symbol_; }

 private:
  const char* symbol_;
  Result (*function_)(Args...);
};

// What only a stand-in driver has (observer.h says what for); null with a GPU's.
struct Observer {
  explicit Observer(void* library);

  void (*begin)(const char* call);
  // Strides count elements.
  void (*array)(const char* name, uint64_t address, int32_t element_bytes, int32_t rank, const int64_t* shape,
                const int64_t* stride, int32_t written);
  void (*end)(Stream stream, int32_t failed);
  void (*name)(DevicePointer address, const char* name);
  void (*forget)(DevicePointer address, uint64_t bytes, Stream stream);
  // One byte a page: whether it is in use.
  void (*forget_pages)(DevicePointer cache, uint64_t page_bytes, const uint8_t* used, uint64_t pages, Stream stream);
};

// Every function that the library uses.
struct Driver {
  explicit Driver(void* library);

  Call<unsigned> init;
  Call<Result, const char**> get_error_name;
  Call<Result, const char**> get_error_string;
  Call<int*> device_get_count;
  Call<Device*, int> device_get;
  Call<char*, int, Device> device_get_name;
  Call<int*, int, Device> device_get_attribute;
  Call<Context*, Device> primary_context_retain;
  Call<Context*> context_get_current;
  Call<Device*> context_get_device;
  Call<Context> context_push;
  Call<Context*> context_pop;
  Call<DevicePointer*, size_t> memory_allocate;
  Call<DevicePointer> memory_free;
  Call<DevicePointer*, size_t, Stream> memory_allocate_async;
  Call<DevicePointer, Stream> memory_free_async;
  Call<void**, size_t, unsigned> host_allocate;
  Call<void*> host_free;
  Call<DevicePointer, unsigned char, size_t, Stream> memory_set_async;
  Call<DevicePointer, const void*, size_t, Stream> copy_to_device_async;
  Call<Module*, const void*> module_load_data;
  Call<Module> module_unload;
  Call<Function*, Module, const char*> module_get_function;
  Call<Function> function_load;
  Call<Function, int, int> function_set_attribute;
  Call<Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**>
      launch_kernel;
  Call<Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**>
      launch_cooperative_kernel;
  // Every driver that has cuFuncLoad has this, whatever its GPU.
  Call<void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int,
       int>
      tensor_map_encode_tiled;
  Call<Event*, unsigned> event_create;
  Call<Event> event_destroy;
  Call<Event, Stream> event_record;
  Call<Event> event_synchronize;
  Call<Stream, Event, unsigned> stream_wait_event;
  Call<Stream> stream_synchronize;
  Call<Stream, int*> stream_is_capturing;
  Call<Stream, unsigned long long*> stream_get_id;
  Call<int*> thread_exchange_capture_mode;

  bool host_memory;  // device memory is host memory: the library is a stand-in
  Observer observer;
};

// The driver's functions; opens the library on the first call and keeps it for the life of the process. Throws Error
// (DRIVER_ERROR) if the library or one of its functions is missing.
const Driver& driver();

// Initialises the driver (once) and remembers which process did. Throws Error: DRIVER_ERROR, or DEVICE_ERROR in a
// process forked after that.
void initialize();

// True in a process forked after initialize(): nothing of the driver may be called there.
bool forked();

// Throws Error (DEVICE_ERROR) if forked().
void check_not_forked();

}  // namespace stratum::cuda
