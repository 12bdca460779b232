// What tests of the emulator's driver share: the exported functions, a device with streams, and kernels of a few lines.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/emulator.h"

// CUlaunchAttribute, CUlaunchConfig, CUDA_KERNEL_NODE_PARAMS_v2 and CUmemPoolProps, as libcuda lays them out.
struct LaunchAttribute {
  int id;
  alignas(8) uint32_t value[16];
};
struct LaunchConfig {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned count;
};
struct KernelNodeParams {
  void* function;
  uint32_t grid[3], block[3], shared_bytes;
  void **params, **extra, *kernel, *context;
};
struct PoolProperties {
  int allocation_type, handle_types, location_type, location;
  char unused[72];
};

extern "C" {
int cuInit(unsigned);
int cuGetProcAddress_v2(const char*, void**, int, uint64_t, int*);
int cuGetErrorName(int, const char**);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuCtxSynchronize();
int cuMemAlloc_v2(uint64_t*, size_t);
int cuMemFree_v2(uint64_t);
int cuMemHostAlloc(void**, size_t, unsigned);
int cuMemFreeHost(void*);
int cuMemAllocAsync(uint64_t*, size_t, void*);
int cuMemAllocFromPoolAsync(uint64_t*, size_t, void*, void*);
int cuMemFreeAsync(uint64_t, void*);
int cuMemGetInfo_v2(size_t*, size_t*);
int cuPointerGetAttribute(void*, int, uint64_t);
int cuDeviceGetDefaultMemPool(void**, int);
int cuDeviceGetMemPool(void**, int);
int cuDeviceSetMemPool(int, void*);
int cuMemPoolCreate(void**, const PoolProperties*);
int cuMemPoolDestroy(void*);
int cuMemPoolGetAttribute(void*, int, void*);
int cuMemPoolSetAttribute(void*, int, void*);
int cuMemcpyDtoH_v2(void*, uint64_t, size_t);
int cuMemcpyHtoDAsync_v2(uint64_t, const void*, size_t, void*);
int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t, void*);
int cuMemsetD32Async(uint64_t, unsigned, size_t, void*);
int cuStreamCreate(void**, unsigned);
int cuStreamDestroy_v2(void*);
int cuStreamSynchronize(void*);
int cuStreamQuery(void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cuEventCreate(void**, unsigned);
int cuEventDestroy_v2(void*);
int cuEventRecord(void*, void*);
int cuEventQuery(void*);
int cuEventSynchronize(void*);
int cuStreamBeginCapture_v2(void*, int);
int cuStreamEndCapture(void*, void**);
int cuStreamIsCapturing(void*, int*);
int cuStreamGetCaptureInfo_v2(void*, int*, uint64_t*, void**, void* const**, size_t*);
int cuThreadExchangeStreamCaptureMode(int*);
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cuGraphGetNodes(void*, void**, size_t*);
int cuGraphNodeGetType(void*, int*);
int cuGraphNodeGetDependencies(void*, void**, size_t*);
int cuGraphKernelNodeGetParams_v2(void*, KernelNodeParams*);
int cuGraphKernelNodeSetParams_v2(void*, const KernelNodeParams*);
int cuGraphExecKernelNodeSetParams_v2(void*, void*, const KernelNodeParams*);
int cuGraphLaunch(void*, void*);
int cuGraphDestroy(void*);
int cuGraphExecDestroy(void*);
int cuModuleLoadData(void**, const void*);
int cuModuleUnload(void*);
int cuModuleGetFunction(void**, void*, const char*);
int cuFuncGetAttribute(int*, int, void*);
int cuFuncSetAttribute(void*, int, int);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int*, void*, int, size_t);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
int cuLaunchKernelEx(const LaunchConfig*, void*, void**, void**);
int cuLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                              void**);
int cuTensorMapEncodeTiled(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int);
}

// Result codes.
inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidHandle = 400, kIllegalState = 401, kNotFound = 500,
                     kNotReady = 600, kIllegalAddress = 700, kMisaligned = 716, kLaunchFailed = 719, kTooLarge = 720,
                     kNotSupported = 801, kUnsupported = 900, kInvalidated = 901, kMerge = 902, kUnmatched = 903,
                     kUnjoined = 904, kIsolation = 905, kImplicit = 906, kCapturedEvent = 907, kWrongThread = 908,
                     kClusterSize = 912;

// A device of compute capability 8.0 whose context is current, two streams that nothing orders, an event and a word of
// device memory. Queued work runs late, or at random in the tests tagged [random]. At the end no fault is left.
struct Device {
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The word as it is now, without waiting for anything.
  unsigned now() const { return *reinterpret_cast<const volatile unsigned*>(word); }
  // Queues that the word becomes a value.
  int set(unsigned value, int stream = 0) const { return cuMemsetD32Async(word, value, 1, streams[stream]); }

  void* context = nullptr;
  void* streams[2] = {};
  void* event = nullptr;
  uint64_t word = 0;
};

// A kernel of the pack that runs another PTX while this lives: an entry with these parameters and body, in which %r0-7,
// %rd0-7 and %p0-1 are free to use. The pack says that it has 32 registers and blocks of 256 threads.
struct MadeKernel {
  MadeKernel(const std::string& parameters, const std::string& body);
  ~MadeKernel();
  MadeKernel(const MadeKernel&) = delete;
  MadeKernel& operator=(const MadeKernel&) = delete;

  int launch(uint32_t blocks, uint32_t threads, void* stream, void** params) const {
    return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, params, nullptr);
  }

  std::string name;
  std::string image;
  void* module = nullptr;
  void* function = nullptr;
};

// The driver's last fault since the last reset; "" if there is none.
std::string last_fault();
