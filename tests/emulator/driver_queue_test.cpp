// Queued work under the late schedule, and the error that a device keeps.
#include <cstring>

#include "driver_support.h"

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

TEST_CASE("what a copy reads is what is there when it runs, except from pageable memory") {
  const Device device;
  unsigned value = 3;
  CHECK(cuMemcpyHtoDAsync_v2(device.word, &value, 4, device.streams[0]) == 0);
  value = 4;
  CHECK(device.now() == 0);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(device.now() == 3);

  void* pinned = nullptr;
  REQUIRE(cuMemHostAlloc(&pinned, 4, 0) == 0);
  auto* words = static_cast<unsigned*>(pinned);
  words[0] = 5;
  CHECK(cuMemcpyHtoDAsync_v2(device.word, words, 4, device.streams[0]) == 0);
  CHECK(emulator_copies_in_flight() == 1);
  words[0] = 6;
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(device.now() == 6);
  CHECK(last_fault() == "page-locked memory was written while a copy from it could be running");
  CHECK(emulator_copies_in_flight() == 0);
  CHECK(cuMemFreeHost(pinned) == 0);
}

TEST_CASE("a stream that is destroyed runs what it had") {
  const Device device;
  void* stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, 1) == 0);
  CHECK(cuMemsetD32Async(device.word, 8, 1, stream) == 0);
  CHECK(cuStreamDestroy_v2(stream) == 0);
  CHECK(device.now() == 0);
  CHECK(cuCtxSynchronize() == 0);
  CHECK(device.now() == 8);
  CHECK(cuStreamSynchronize(stream) == kInvalidHandle);
  CHECK(last_fault() == "cuStreamSynchronize on an unknown stream");
}

TEST_CASE("a call can be made to fail, once") {
  const Device device;
  uint64_t memory = 0;
  emulator_fail("cuMemAlloc_v2", 2, kOutOfMemory);
  CHECK(cuMemAlloc_v2(&memory, 4) == 0);
  CHECK(cuMemFree_v2(memory) == 0);
  CHECK(cuMemAlloc_v2(&memory, 4) == kOutOfMemory);
  CHECK(cuMemAlloc_v2(&memory, 4) == 0);
  CHECK(cuMemFree_v2(memory) == 0);
  CHECK(emulator_calls("cuMemAlloc_v2") == 4);  // one of the device's
  CHECK(emulator_fault_count() == 0);
}

TEST_CASE("functions are found by name, the newest version first") {
  void* function = nullptr;
  int status = 9;
  CHECK(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status) == 0);
  CHECK(function == reinterpret_cast<void*>(&cuMemAlloc_v2));
  CHECK(status == 0);
  CHECK(cuGetProcAddress_v2("cuLaunchKernel", &function, 12000, 0, nullptr) == 0);
  CHECK(function == reinterpret_cast<void*>(&cuLaunchKernel));
  CHECK(cuGetProcAddress_v2("cuMakeCoffee", &function, 12000, 0, &status) == kNotFound);
  CHECK(function == nullptr);
  CHECK(status == 1);
}
