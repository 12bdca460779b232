// The driver's queues, errors and tensor maps, through its exported functions. No kernel is run.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "driver/emulator.h"

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(uint64_t*, size_t);
int cuMemFree_v2(uint64_t);
int cuMemAllocAsync(uint64_t*, size_t, void*);
int cuMemFreeAsync(uint64_t, void*);
int cuMemcpyDtoH_v2(void*, uint64_t, size_t);
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
int cuStreamBeginCapture_v2(void*, int);
int cuStreamEndCapture(void*, void**);
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cuGraphGetNodes(void*, void**, size_t*);
int cuGraphLaunch(void*, void*);
int cuGraphDestroy(void*);
int cuGraphExecDestroy(void*);
int cuTensorMapEncodeTiled(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int);
}

namespace {

constexpr unsigned kNonBlocking = 1;
constexpr int kNotReady = 600, kUnjoined = 904, kIsolation = 905;

// A current context, two streams that nothing orders and one word of device memory; at the end no fault is left.
struct Device {
  Device() {
    REQUIRE(cuInit(0) == 0);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(cuCtxSetCurrent(context) == 0);
    emulator_reset();
    REQUIRE(cuMemAlloc_v2(&word, 4) == 0);
    for (void*& stream : streams) REQUIRE(cuStreamCreate(&stream, kNonBlocking) == 0);
    REQUIRE(cuEventCreate(&event, 0) == 0);
  }
  ~Device() {
    CHECK(cuMemFree_v2(word) == 0);
    for (void* stream : streams) CHECK(cuStreamDestroy_v2(stream) == 0);
    CHECK(cuEventDestroy_v2(event) == 0);
    emulator_reset();
  }
  // The word as it is now, without waiting for anything.
  unsigned now() const { return *reinterpret_cast<const volatile unsigned*>(word); }
  int set(unsigned value, int stream = 0) const { return cuMemsetD32Async(word, value, 1, streams[stream]); }

  void* context = nullptr;
  void* streams[2] = {};
  void* event = nullptr;
  uint64_t word = 0;
};

std::string last_fault() {
  const char* fault = emulator_fault(emulator_fault_count() - 1);
  return fault != nullptr ? fault : "";
}

}  // namespace

TEST_CASE("late work runs when something waits for it, and not before") {
  const Device device;
  CHECK(device.set(7) == 0);
  CHECK(device.now() == 0);
  CHECK(cuStreamQuery(device.streams[0]) == kNotReady);
  CHECK(cuStreamSynchronize(device.streams[1]) == 0);
  CHECK(device.now() == 0);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(device.now() == 7);
  CHECK(cuStreamQuery(device.streams[0]) == 0);
}

TEST_CASE("an event orders streams: what one waits for runs first") {
  const Device device;
  CHECK(device.set(1) == 0);
  CHECK(cuEventRecord(device.event, device.streams[0]) == 0);
  CHECK(cuEventQuery(device.event) == kNotReady);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == 0);
  CHECK(device.set(2, 1) == 0);
  CHECK(cuStreamSynchronize(device.streams[1]) == 0);
  CHECK(device.now() == 2);
  CHECK(cuEventQuery(device.event) == 0);
  CHECK(emulator_queued() == 0);
}

TEST_CASE("the legacy stream waits for blocking streams and not for others") {
  const Device device;
  void* blocking = nullptr;
  REQUIRE(cuStreamCreate(&blocking, 0) == 0);
  unsigned seen = 9;
  CHECK(device.set(3) == 0);
  CHECK(cuMemcpyDtoH_v2(&seen, device.word, 4) == 0);
  CHECK(seen == 0);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(cuMemsetD32Async(device.word, 4, 1, blocking) == 0);
  CHECK(cuMemcpyDtoH_v2(&seen, device.word, 4) == 0);
  CHECK(seen == 4);
  CHECK(cuStreamDestroy_v2(blocking) == 0);
}

TEST_CASE("memory that is freed in stream order before a copy in another stream runs") {
  const Device device;
  uint64_t other = 0;
  REQUIRE(cuMemAllocAsync(&other, 4, device.streams[0]) == 0);
  CHECK(cuMemcpyDtoDAsync_v2(device.word, other, 4, device.streams[1]) == 0);
  CHECK(cuMemFreeAsync(other, device.streams[0]) == 0);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(cuStreamSynchronize(device.streams[1]) == 700);
  CHECK_THAT(last_fault(), Catch::Contains("freed before it ran"));
  CHECK(cuStreamQuery(device.streams[1]) == 700);  // the device keeps the error
  emulator_reset();
  CHECK(cuStreamQuery(device.streams[1]) == 0);
  CHECK(cuMemFree_v2(other) != 0);
  CHECK_THAT(last_fault(), Catch::Contains("free already"));
}

TEST_CASE("captured work becomes a graph, which runs when it is launched") {
  const Device device;
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(device.set(5) == 0);
  CHECK(cuEventRecord(device.event, device.streams[0]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == 0);
  CHECK(device.set(6, 1) == 0);
  CHECK(cuEventRecord(device.event, device.streams[1]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[0], device.event, 0) == 0);
  void *graph = nullptr, *exec = nullptr;
  REQUIRE(cuStreamEndCapture(device.streams[0], &graph) == 0);
  size_t nodes = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes) == 0);
  CHECK(nodes == 2);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
  CHECK(cuGraphLaunch(exec, device.streams[0]) == 0);
  CHECK(device.now() == 0);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(device.now() == 6);
  CHECK(cuGraphExecDestroy(exec) == 0);
  CHECK(cuGraphDestroy(graph) == 0);
}

TEST_CASE("captures that are not whole have no graph") {
  const Device device;
  void* graph = nullptr;
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(cuEventRecord(device.event, device.streams[0]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == 0);
  CHECK(device.set(1, 1) == 0);
  CHECK(cuStreamEndCapture(device.streams[0], &graph) == kUnjoined);
  CHECK(graph == nullptr);
  CHECK(cuEventRecord(device.event, device.streams[1]) == 0);
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(cuStreamWaitEvent(device.streams[0], device.event, 0) == kIsolation);
  CHECK(cuStreamEndCapture(device.streams[0], &graph) == 901);
}

TEST_CASE("a tensor map's rules") {
  const Device device;
  alignas(64) unsigned char map[128] = {};
  alignas(32) static unsigned char data[64] = {};
  const uint64_t extents[] = {64, 300}, strides[] = {128};
  uint32_t box[] = {64, 16};
  const uint32_t steps[] = {1, 1};
  const auto encode = [&](const uint64_t* rows, int swizzle) {
    return cuTensorMapEncodeTiled(map, 9, 2, data, extents, rows, box, steps, 0, swizzle, 0, 0);
  };
  CHECK(encode(strides, 3) == 0);
  CHECK(std::memcmp(map, "TMAP\1\11\2\0\3", 9) == 0);
  const uint64_t odd[] = {120};
  CHECK(encode(odd, 3) == 1);
  CHECK_THAT(last_fault(), Catch::Contains("globalStrides[0]: expected a multiple of 16 below 2^40, got 120"));
  CHECK(encode(strides, 2) == 1);
  CHECK_THAT(last_fault(), Catch::Contains("the box's inner bytes: expected at most the swizzle's 64, got 128"));
  box[1] = 257;
  CHECK(encode(strides, 3) == 1);
  CHECK_THAT(last_fault(), Catch::Contains("boxDim[1]: expected 1 to 256, got 257"));
}
