// The emulator notices what the tests rely on it to notice.
#include <catch2/catch.hpp>

#include "context.h"
#include "driver.h"
#include "error.h"
#include "kernels.h"
#include "memory.h"
#include "modules.h"
#include "support.h"

namespace {

using namespace support;
using namespace stratum;
using cuda::driver;

// A current context on device 0, and no faults left behind.
struct EmulatedDevice {
  EmulatedDevice() : scope((cuda::initialize(), cuda::primary_context(0))) { emulator_reset(); }
  ~EmulatedDevice() { emulator_reset(); }

  cuda::ContextScope scope;
};

std::string last_fault() {
  const char* fault = emulator_fault(emulator_fault_count() - 1);
  return fault != nullptr ? fault : "";
}

}  // namespace

TEST_CASE("The emulator notices memory freed twice or never allocated") {
  const EmulatedDevice device;
  cuda::DevicePointer data = 0;
  driver().memory_allocate(&data, 100);
  CHECK(driver().memory_free.attempt(data + 16) != cuda::kSuccess);
  CHECK_THAT(last_fault(), Catch::Contains("never allocated"));
  driver().memory_free(data);
  CHECK(driver().memory_free.attempt(data) != cuda::kSuccess);
  CHECK_THAT(last_fault(), Catch::Contains("free already"));
}

TEST_CASE("The emulator notices page-locked memory touched before a copy from it is done") {
  const EmulatedDevice device;
  MemoryAccount account(std::nullopt);
  const DeviceBuffer target(account, 64);
  const PinnedBuffer source(64);
  const EventHandle event;
  const auto copy = [&] { driver().copy_to_device_async(target.data(), source.data(), 64, nullptr); };
  copy();
  driver().event_record(event.get(), nullptr);
  driver().event_synchronize(event.get());
  copy();
  CHECK(emulator_fault_count() == 0);
  copy();
  CHECK_THAT(last_fault(), Catch::Contains("used again"));
  source.data()[3] = std::byte{1};
  driver().event_record(event.get(), nullptr);
  driver().event_synchronize(event.get());
  CHECK_THAT(last_fault(), Catch::Contains("was written"));
  CHECK(emulator_copies_in_flight() == 0);
}

TEST_CASE("The emulator follows waits from stream to stream") {
  const EmulatedDevice device;
  MemoryAccount account(std::nullopt);
  const DeviceBuffer target(account, 64);
  const PinnedBuffer source(64);
  const EventHandle first, second;
  const uint64_t a = emulator_stream_create(0), b = emulator_stream_create(0);
  const auto stream = [](uint64_t handle) { return reinterpret_cast<cuda::Stream>(handle); };
  driver().copy_to_device_async(target.data(), source.data(), 64, stream(a));
  driver().event_record(first.get(), stream(a));
  driver().event_record(second.get(), stream(b));
  driver().event_synchronize(second.get());
  CHECK(emulator_copies_in_flight() == 1);  // b has not waited for a
  driver().stream_wait_event(stream(b), first.get(), 0);
  driver().event_record(second.get(), stream(b));
  driver().event_synchronize(second.get());
  CHECK(emulator_copies_in_flight() == 0);
  emulator_stream_destroy(a);
  emulator_stream_destroy(b);
}

TEST_CASE("The emulator notices bad launches") {
  const EmulatedDevice device;
  LoadedKernel kernel;
  kernel.row.name = "made_up";
  kernel.row.block = 32;
  kernel.row.shared_bytes = 1000;
  kernel.function = load_function(0, "hash of made_up", "image of made_up(8)", "made_up", 1000);
  uint64_t params = 0;
  launch(kernel, {.x = 1}, nullptr, params);
  CHECK(emulator_fault_count() == 0);
  CHECK_THROWS_AS(launch(kernel, {.x = 0}, nullptr, params), Error);
  CHECK_THAT(last_fault(), Catch::Contains("grid"));
  CHECK_THROWS_AS(launch(kernel, {.x = 1}, reinterpret_cast<cuda::Stream>(0x1234), params), Error);
  CHECK_THAT(last_fault(), Catch::Contains("unknown stream"));
  kernel.row.shared_bytes = 1001;
  CHECK_THROWS_AS(launch(kernel, {.x = 1}, nullptr, params), Error);
  CHECK_THAT(last_fault(), Catch::Contains("shared memory"));
  kernel.row.shared_bytes = 1000;
  cuda::DevicePointer data = 0;
  driver().memory_allocate(&data, 64);
  driver().memory_free(data);
  params = data + 8;
  launch(kernel, {.x = 1}, nullptr, params);
  CHECK_THAT(last_fault(), Catch::Contains("freed memory"));
}

TEST_CASE("The emulator breaks a capture by what a driver would refuse in it") {
  const EmulatedDevice device;
  const uint64_t stream = emulator_stream_create(0);
  emulator_stream_capture(stream, 1);
  cuda::DevicePointer data = 0;
  CHECK(driver().memory_allocate.attempt(&data, 64) != cuda::kSuccess);
  CHECK(emulator_stream_capture(stream, 0) == 0);
  emulator_stream_capture(stream, 1);
  {
    const cuda::RelaxedCapture relaxed;
    driver().memory_allocate(&data, 64);
    driver().memory_free(data);
  }
  CHECK(emulator_stream_capture(stream, 0) == 1);
  emulator_stream_destroy(stream);
}
