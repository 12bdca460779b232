// Launches of kernels: ways to give parameters, attributes, occupancy, cooperative launches, faults.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "driver/inspect.h"
#include "driver_support.h"

using Catch::Contains;

namespace {

// out[thread] = step * thread + add: three parameters, with bytes between the first two that belong to none.
constexpr const char* kParameters = ".param .u32 add, .param .u64 out, .param .u32 step";
constexpr const char* kBody =
    "ld.param.u64 %rd0, [out]; ld.param.u32 %r0, [add]; ld.param.u32 %r1, [step];\n"
    "mov.u32 %r2, %tid.x; mul.wide.u32 %rd1, %r2, 4; add.s64 %rd0, %rd0, %rd1;\n"
    "mad.lo.u32 %r1, %r1, %r2, %r0; st.global.u32 [%rd0], %r1;";

// Counts the blocks in and waits until as many as there are have come.
constexpr const char* kMeetingParameters = ".param .u64 count, .param .u32 blocks";
constexpr const char* kMeeting =
    "ld.param.u64 %rd0, [count]; ld.param.u32 %r0, [blocks]; atom.global.add.u32 %r1, [%rd0], 1;\n"
    "LOOP: ld.volatile.global.u32 %r1, [%rd0]; setp.lt.u32 %p0, %r1, %r0; @%p0 bra LOOP;";

struct Words {
  explicit Words(size_t count) : count(count) {
    REQUIRE(cuMemAlloc_v2(&address, 4 * count) == 0);
    REQUIRE(cuMemsetD32Async(address, 0, count, nullptr) == 0);
    REQUIRE(cuStreamSynchronize(nullptr) == 0);
  }
  ~Words() { CHECK(cuMemFree_v2(address) == 0); }
  std::vector<uint32_t> values() const {
    std::vector<uint32_t> found(count);
    CHECK(cuMemcpyDtoH_v2(found.data(), address, 4 * count) == 0);
    return found;
  }
  size_t count;
  uint64_t address = 0;
};

}  // namespace

TEST_CASE("parameters are given one by one or as a buffer", "[random]") {
  const Device device;
  const MadeKernel kernel(kParameters, kBody);
  Words words(4);
  uint64_t address = words.address;
  uint32_t add = 5;
  uint32_t step = 3;
  void* params[] = {&add, &address, &step};
  void* stream = device.streams[0];

  CHECK(cuLaunchKernel(kernel.function, 1, 1, 1, 4, 1, 1, 0, stream, params, nullptr) == 0);
  step = 100;  // the launch has taken the parameters
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(words.values() == std::vector<uint32_t>{5, 8, 11, 14});

  const LaunchConfig config = {{1, 1, 1}, {4, 1, 1}, 0, stream, nullptr, 0};
  CHECK(cuLaunchKernelEx(&config, kernel.function, params, nullptr) == 0);
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(words.values() == std::vector<uint32_t>{5, 105, 205, 305});

  step = 1;
  CHECK(cuLaunchCooperativeKernel(kernel.function, 1, 1, 1, 4, 1, 1, 0, stream, params) == 0);
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(words.values() == std::vector<uint32_t>{5, 6, 7, 8});

  unsigned char buffer[20] = {};
  size_t size = sizeof(buffer);
  step = 2;
  std::memcpy(buffer, &add, 4);
  std::memcpy(buffer + 8, &address, 8);
  std::memcpy(buffer + 16, &step, 4);
  void* extra[] = {reinterpret_cast<void*>(1), buffer, reinterpret_cast<void*>(2), &size, nullptr};
  CHECK(cuLaunchKernel(kernel.function, 1, 1, 1, 4, 1, 1, 0, stream, nullptr, extra) == 0);
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(words.values() == std::vector<uint32_t>{5, 7, 9, 11});
  for (int64_t i = 1; i < emulator_launch_count(); ++i) {
    emulator_launch launch = {};
    CHECK(emulator_launch_get(i, &launch) == 1);
    CHECK(launch.params_bytes == 20);
    CHECK(launch.cooperative == (i == 2));
    CHECK(std::memcmp(launch.params, buffer, 16) == 0);
  }
}

TEST_CASE("parameters that aren't what the kernel takes") {
  const Device device;
  const MadeKernel kernel(kParameters, kBody);
  uint64_t address = device.word;
  uint32_t add = 5;
  void* params[] = {&add, &address, nullptr};
  size_t size = 8;
  void* extra[] = {reinterpret_cast<void*>(1), &address, reinterpret_cast<void*>(2), &size, nullptr};
  const auto launch = [&](void** one_by_one, void** buffer) {
    return cuLaunchKernel(kernel.function, 1, 1, 1, 1, 1, 1, 0, device.streams[0], one_by_one, buffer);
  };
  CHECK(launch(params, nullptr) == kInvalidValue);
  CHECK_THAT(last_fault(), Contains("kernelParams[2]: expected a pointer to 4 bytes, got null"));
  CHECK(launch(nullptr, nullptr) == kInvalidValue);
  CHECK_THAT(last_fault(), Contains("kernelParams[0]: expected a pointer to 4 bytes, got null"));
  CHECK(launch(nullptr, extra) == kInvalidValue);
  CHECK_THAT(last_fault(), Contains("parameters: given 8 bytes, takes 20"));
  CHECK(launch(params, extra) == kInvalidValue);
  CHECK_THAT(last_fault(), Contains("both kernelParams and extra are given"));
  std::swap(extra[0], extra[2]);
  CHECK(launch(nullptr, extra) == kInvalidValue);
  CHECK_THAT(last_fault(), Contains("extra: expected a buffer, then its size"));
  CHECK(emulator_launch_count() == 0);
}

TEST_CASE("parameters where nothing is executed are as large as the image says") {
  const Device device;
  emulator_execute(0);
  void* module = nullptr;
  REQUIRE(cuModuleLoadData(&module, "made_up(8) and silent") == 0);
  void *made_up = nullptr, *silent = nullptr;
  REQUIRE(cuModuleGetFunction(&made_up, module, "made_up") == 0);
  REQUIRE(cuModuleGetFunction(&silent, module, "silent") == 0);
  uint64_t word = 42;
  void* params[] = {&word};
  CHECK(cuLaunchKernel(made_up, 1, 1, 1, 1, 1, 1, 0, device.streams[0], params, nullptr) == 0);
  emulator_launch launch = {};
  REQUIRE(emulator_launch_get(0, &launch) == 1);
  CHECK(launch.params_bytes == 8);
  CHECK(*static_cast<const uint64_t*>(launch.params) == 42);
  CHECK(cuLaunchKernel(silent, 1, 1, 1, 1, 1, 1, 0, device.streams[0], params, nullptr) == kNotSupported);
  CHECK_THAT(last_fault(), Contains("silent: kernelParams where nothing is executed, and the image doesn't say"));
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(cuModuleUnload(module) == 0);
  emulator_execute(1);
}

TEST_CASE("blocks of a cooperative launch wait for each other, those of others can't", "[random]") {
  const Device device;
  const MadeKernel kernel(kMeetingParameters, kMeeting);
  Words words(1);
  uint32_t blocks = 20;
  void* params[] = {&words.address, &blocks};
  void* stream = device.streams[0];
  CHECK(cuLaunchCooperativeKernel(kernel.function, blocks, 1, 1, 1, 1, 1, 0, stream, params) == 0);
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(words.values() == std::vector<uint32_t>{20});

  const LaunchAttribute cooperative = {2, {1}};
  const LaunchConfig config = {{blocks, 1, 1}, {1, 1, 1}, 0, stream, &cooperative, 1};
  blocks = 40;
  CHECK(cuLaunchKernelEx(&config, kernel.function, params, nullptr) == 0);
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(words.values() == std::vector<uint32_t>{40});

  blocks = 1000;  // never come
  emulator_limit(10000);
  CHECK(kernel.launch(20, 1, stream, params) == 0);
  CHECK(cuStreamSynchronize(stream) == kLaunchFailed);
  CHECK_THAT(last_fault(), Contains("limit: no end after"));
  emulator_limit(1'000'000'000);
  emulator_reset();
}

TEST_CASE("warps take turns in their order, under the random schedule by chance", "[random]") {
  const Device device;
  const MadeKernel kernel(".param .u64 count, .param .u64 out",  // out[warp] = how many warps came before
                          "ld.param.u64 %rd0, [count]; ld.param.u64 %rd1, [out]; mov.u32 %r0, %tid.x;\n"
                          "and.b32 %r1, %r0, 31; setp.ne.s32 %p0, %r1, 0; @%p0 bra END;\n"
                          "atom.global.add.u32 %r2, [%rd0], 1; shr.u32 %r3, %r0, 5; mul.wide.u32 %rd2, %r3, 4;\n"
                          "add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2;\nEND:");
  const bool random = std::string(std::getenv("STRATUM_EMULATOR_SCHEDULE")).starts_with("random");
  const std::vector<uint32_t> in_order = {0, 1, 2, 3};
  std::set<std::vector<uint32_t>> orders;
  for (int repeat = 0; repeat < 20; ++repeat) {
    Words count(1), out(4);
    void* params[] = {&count.address, &out.address};
    CHECK(kernel.launch(1, 128, device.streams[0], params) == 0);
    CHECK(cuStreamSynchronize(device.streams[0]) == 0);
    std::vector<uint32_t> order = out.values();
    orders.insert(order);
    std::ranges::sort(order);
    CHECK(order == in_order);
  }
  if (random) {
    CHECK(orders.size() > 1);
  } else {
    CHECK(orders == std::set<std::vector<uint32_t>>{in_order});
  }
}

TEST_CASE("how many blocks a multiprocessor holds, and so how many a cooperative launch may have", "[random]") {
  const Device device;
  const MadeKernel kernel(kMeetingParameters, kMeeting);
  const auto resident = [&](int threads, size_t shared) {
    int blocks = 0;
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function, threads, shared) == 0);
    return blocks;
  };
  CHECK(resident(32, 0) == 32);         // as many blocks as there may be
  CHECK(resident(256, 0) == 8);         // 2048 threads
  CHECK(resident(257, 0) == 7);         // whole warps
  CHECK(resident(256, 48 << 10) == 3);  // 164 KiB of shared memory, and 1 KiB a block is the driver's
  int blocks = 0;
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function, 1025, 0) == kInvalidValue);

  Words words(1);
  uint32_t all = 3 * 108;
  void* params[] = {&words.address, &all};
  void* stream = device.streams[0];
  CHECK(cuLaunchCooperativeKernel(kernel.function, all, 1, 1, 256, 1, 1, 48 << 10, stream, params) == 0);
  CHECK(cuLaunchCooperativeKernel(kernel.function, all + 1, 1, 1, 256, 1, 1, 48 << 10, stream, params) == kTooLarge);
  CHECK_THAT(last_fault(), Contains("a cooperative launch of 325 x 1 x 1 blocks, the device holds 324"));
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(words.values() == std::vector<uint32_t>{256 * all});
}

TEST_CASE("attributes of functions and of launches") {
  const Device device;
  const MadeKernel kernel(kParameters, ".shared .align 4 .b8 kept[64];");
  const auto value = [&](int attribute) {
    int found = -1;
    CHECK(cuFuncGetAttribute(&found, attribute, kernel.function) == 0);
    return found;
  };
  CHECK(value(0) == 256);
  CHECK(value(1) == 64);
  CHECK(value(4) == 32);
  CHECK(value(6) == 80);
  CHECK(value(8) == 48 << 10);
  uint64_t address = device.word;
  uint32_t add = 0;
  uint32_t step = 0;
  void* params[] = {&add, &address, &step};
  const auto launch = [&](uint32_t shared, const LaunchAttribute& attribute) {
    const LaunchConfig config = {{2, 1, 1}, {1, 1, 1}, shared, device.streams[0], &attribute, 1};
    return cuLaunchKernelEx(&config, kernel.function, params, nullptr);
  };
  CHECK(launch(49153, {0, {}}) == kInvalidValue);
  CHECK_THAT(last_fault(), Contains("more dynamic shared memory than was permitted: 49153 bytes, permitted 49152"));
  CHECK(cuFuncSetAttribute(kernel.function, 8, 166913) == kInvalidValue);
  CHECK(cuFuncSetAttribute(kernel.function, 8, 60000) == 0);
  CHECK(launch(49153, {0, {}}) == 0);
  CHECK(launch(0, {6, {1}}) == 0);  // programmatic serialisation
  CHECK(launch(0, {4, {2, 1, 1}}) == kClusterSize);
  CHECK_THAT(last_fault(), Contains("a cluster of 2 x 1 x 1 blocks in a grid of 2 x 1 x 1"));
  CHECK(launch(0, {7, {}}) == kNotSupported);
  CHECK(last_fault() == "cuLaunchKernelEx: attribute 7 isn't emulated");
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
}

TEST_CASE("a device keeps a kernel's fault", "[random]") {
  const Device device;
  const MadeKernel kernel(kParameters, kBody);
  uint64_t address = device.word;
  uint32_t add = 1;
  uint32_t step = 1;
  void* params[] = {&add, &address, &step};
  void* stream = device.streams[0];
  const auto run = [&](uint64_t out, uint32_t threads) {
    address = out;
    emulator_reset();
    CHECK(kernel.launch(1, threads, stream, params) == 0);
    return cuStreamSynchronize(stream);
  };
  CHECK(run(device.word, 2) == kIllegalAddress);
  CHECK_THAT(last_fault(), Contains("bounds") && Contains("lane 1"));
  uint64_t more = 0;
  CHECK(device.set(9) == kIllegalAddress);
  CHECK(cuMemAlloc_v2(&more, 4) == kIllegalAddress);
  CHECK(cuCtxSynchronize() == kIllegalAddress);
  emulator_reset();
  CHECK(cuCtxSynchronize() == 0);
  CHECK(device.set(9) == 0);
  CHECK(cuStreamSynchronize(stream) == 0);
  CHECK(device.now() == 9);
  CHECK(run(device.word + 2, 1) == kMisaligned);
  CHECK_THAT(last_fault(), Contains("misaligned"));
  CHECK(run(device.word, 1) == 0);
  CHECK(device.now() == 1);
}

TEST_CASE("memory that is freed, or a module unloaded, before the kernel runs") {
  const Device device;
  uint64_t memory = 0;
  uint32_t add = 1;
  uint32_t step = 1;
  void* params[] = {&add, &memory, &step};
  {
    const MadeKernel kernel(kParameters, kBody);
    REQUIRE(cuMemAllocAsync(&memory, 4, device.streams[0]) == 0);
    CHECK(kernel.launch(1, 1, device.streams[1], params) == 0);
    CHECK(cuMemFreeAsync(memory, device.streams[0]) == 0);
    CHECK(kernel.launch(1, 1, device.streams[0], params) == 0);
    CHECK_THAT(last_fault(), Contains("parameter at byte 8 points into freed memory"));
    CHECK(cuStreamSynchronize(device.streams[0]) == kIllegalAddress);
    CHECK_THAT(last_fault(), Contains("freed"));
    emulator_reset();
    CHECK(cuStreamSynchronize(device.streams[1]) == kIllegalAddress);
    emulator_reset();
    memory = device.word;
    CHECK(kernel.launch(1, 1, device.streams[1], params) == 0);
  }
  CHECK(cuStreamSynchronize(device.streams[1]) == kInvalidHandle);
  CHECK_THAT(last_fault(), Contains("its module was unloaded before it ran"));
  emulator_reset();
}
