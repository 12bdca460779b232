// Memory: what is freed twice or used afterwards, pools, what the driver knows of a pointer.
#include <cstring>

#include "driver_support.h"

using Catch::Contains;

TEST_CASE("memory is freed once, by the function for its kind") {
  const Device device;
  uint64_t memory = 0;
  void* pinned = nullptr;
  REQUIRE(cuMemAlloc_v2(&memory, 100) == 0);
  REQUIRE(cuMemHostAlloc(&pinned, 100, 0) == 0);
  CHECK(emulator_live("pinned") == 1);
  CHECK(cuMemFreeHost(reinterpret_cast<void*>(memory)) == kInvalidValue);
  CHECK(last_fault() == "cuMemFreeHost of device memory");
  CHECK(cuMemFree_v2(reinterpret_cast<uint64_t>(pinned)) == kInvalidValue);
  CHECK(last_fault() == "cuMemFree_v2 of page-locked memory");
  CHECK(cuMemFree_v2(memory + 4) == kInvalidValue);
  CHECK(last_fault() == "cuMemFree_v2 of an address that was never allocated");
  CHECK(cuMemFree_v2(memory) == 0);
  CHECK(cuMemFree_v2(memory) == kInvalidValue);
  CHECK(last_fault() == "cuMemFree_v2 of memory that is free already");
  CHECK(cuMemFreeHost(pinned) == 0);
  CHECK(emulator_live("pinned") == 0);
}

TEST_CASE("freed memory isn't copied, set or asked about, and its address not given out again") {
  const Device device;
  uint64_t memory = 0, other = 0;
  REQUIRE(cuMemAlloc_v2(&memory, 100) == 0);
  CHECK(cuMemFree_v2(memory) == 0);
  REQUIRE(cuMemAlloc_v2(&other, 100) == 0);
  CHECK(other != memory);
  CHECK(cuMemsetD32Async(memory, 1, 1, device.streams[0]) == kInvalidValue);
  CHECK(last_fault() == "cuMemsetD32Async of memory that was freed");
  CHECK(cuMemcpyDtoDAsync_v2(other, memory, 4, device.streams[0]) == kInvalidValue);
  CHECK(last_fault() == "cuMemcpyDtoDAsync_v2 of memory that was freed");
  CHECK(cuMemcpyDtoDAsync_v2(other, device.word, 8, device.streams[0]) == kInvalidValue);
  CHECK(last_fault() == "cuMemcpyDtoDAsync_v2 outside an allocation");
  int type = 0;
  CHECK(cuPointerGetAttribute(&type, 2, memory) == kInvalidValue);
  CHECK(cuMemFree_v2(other) == 0);
}

TEST_CASE("memory runs out") {
  const Device device;
  size_t free = 0, total = 0, after = 0;
  uint64_t memory = 0, more = 0;
  CHECK(cuMemGetInfo_v2(&free, &total) == 0);
  CHECK(total == size_t{80} << 30);
  CHECK(cuMemAlloc_v2(&memory, free + 1) == kOutOfMemory);
  CHECK(cuMemAlloc_v2(&memory, free) == 0);
  CHECK(cuMemAlloc_v2(&more, 1) == kOutOfMemory);
  CHECK(cuMemFree_v2(memory) == 0);
  CHECK(cuMemGetInfo_v2(&after, &total) == 0);
  CHECK(after == free);
  CHECK(cuMemAlloc_v2(&memory, 0) == kInvalidValue);
}

TEST_CASE("a pool counts what is taken from it until the free has run") {
  const Device device;
  PoolProperties properties = {1, 0, 1, 0, {}};
  void* pool = nullptr;
  uint64_t memory = 0, used = 9, most = 9, threshold = 9;
  REQUIRE(cuMemPoolCreate(&pool, &properties) == 0);
  CHECK(cuMemPoolGetAttribute(pool, 4, &threshold) == 0);
  CHECK(threshold == 0);
  threshold = uint64_t{1} << 40;
  CHECK(cuMemPoolSetAttribute(pool, 4, &threshold) == 0);
  threshold = 0;
  CHECK(cuMemPoolGetAttribute(pool, 4, &threshold) == 0);
  CHECK(threshold == uint64_t{1} << 40);

  CHECK(cuMemAllocFromPoolAsync(&memory, 1000, pool, device.streams[0]) == 0);
  CHECK(cuMemFreeAsync(memory, device.streams[0]) == 0);
  CHECK(cuMemPoolGetAttribute(pool, 7, &used) == 0);
  CHECK(used == 1000);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(cuMemPoolGetAttribute(pool, 7, &used) == 0);
  CHECK(cuMemPoolGetAttribute(pool, 8, &most) == 0);
  CHECK(used == 0);
  CHECK(most == 1000);
  most = 0;
  CHECK(cuMemPoolSetAttribute(pool, 8, &most) == 0);
  CHECK(cuMemPoolGetAttribute(pool, 8, &most) == 0);
  CHECK(most == 0);

  CHECK(emulator_live("pool") == 1);
  CHECK(cuMemPoolDestroy(pool) == 0);
  CHECK(emulator_live("pool") == 0);
  CHECK(cuMemAllocFromPoolAsync(&memory, 1000, pool, device.streams[0]) == kInvalidValue);
  CHECK(last_fault() == "cuMemAllocFromPoolAsync from an unknown pool");
}

TEST_CASE("a device's pool is the one that was set, until that is destroyed") {
  const Device device;
  PoolProperties properties = {1, 0, 1, 0, {}};
  void *pool = nullptr, *standard = nullptr, *current = nullptr;
  uint64_t memory = 0, used = 0;
  CHECK(cuDeviceGetDefaultMemPool(&standard, 0) == 0);
  REQUIRE(cuMemPoolCreate(&pool, &properties) == 0);
  CHECK(cuDeviceSetMemPool(0, pool) == 0);
  CHECK(cuDeviceGetMemPool(&current, 0) == 0);
  CHECK(current == pool);
  CHECK(cuDeviceSetMemPool(1, pool) == kInvalidValue);
  CHECK(last_fault() == "cuDeviceSetMemPool of another device's pool");
  CHECK(cuMemAllocAsync(&memory, 64, device.streams[0]) == 0);
  CHECK(cuMemPoolGetAttribute(pool, 7, &used) == 0);
  CHECK(used == 64);
  CHECK(cuMemPoolDestroy(pool) == 0);
  CHECK(cuDeviceGetMemPool(&current, 0) == 0);
  CHECK(current == standard);
  CHECK(cuMemFree_v2(memory) == 0);  // memory outlives its pool
  CHECK(cuMemPoolDestroy(standard) == kInvalidValue);
  CHECK(last_fault() == "cuMemPoolDestroy of a default pool");
}

TEST_CASE("what the driver knows of a pointer") {
  const Device device;
  void* pinned = nullptr;
  REQUIRE(cuMemHostAlloc(&pinned, 100, 0) == 0);
  const auto host = reinterpret_cast<uint64_t>(pinned);
  const auto ask = [](int attribute, uint64_t pointer, int expected = 0) {
    uint64_t value = 0;  // whose first four bytes are an int's
    CHECK(cuPointerGetAttribute(&value, attribute, pointer) == expected);
    return value;
  };
  CHECK(ask(2, device.word) == 2);
  CHECK(ask(2, host + 99) == 1);
  CHECK(ask(1, device.word) == reinterpret_cast<uint64_t>(device.context));
  CHECK(ask(3, host + 8) == host + 8);
  CHECK(ask(4, host + 8) == host + 8);
  ask(4, device.word, kInvalidValue);
  CHECK(ask(9, device.word) == 0);
  CHECK(ask(11, host + 8) == host);
  CHECK(ask(12, host + 8) == 100);
  ask(2, host + 100, kInvalidValue);
  int local = 0;
  ask(2, reinterpret_cast<uint64_t>(&local), kInvalidValue);
  CHECK(emulator_fault_count() == 0);
  ask(5, device.word, kNotSupported);
  CHECK(last_fault() == "cuPointerGetAttribute: attribute 5 isn't emulated");
  CHECK(cuMemFreeHost(pinned) == 0);
}
