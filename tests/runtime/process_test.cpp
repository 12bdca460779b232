// An engine in a forked process.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "support.h"

namespace {

using namespace support;

// Runs `body` in a forked child; the number it returns, or -1 if the child died or hung.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);  // ends a child that waits for a lock nobody will release
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("In a forked process every call is a clear error, and giving up is silent") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create();
  const ServingCall serving(1);
  const TrainingCall training(1, 1);
  const int failed = in_child([&] {
    emulator_reset();
    int64_t id = 0, bytes = 0;
    uint64_t data = 0;
    stratum_memory memory{};
    const char* json = nullptr;
    int32_t device = 0;
    stratum_engine other = 0;
    const stratum_status refused[] = {
        serving.decode(engine, {a}, {1}),
        serving.prefill(engine, {a}, {1}),
        training.forward(engine),
        training.backward(engine),
        stratum_create(engine, &id),
        stratum_fork(engine, a, &id),
        stratum_release(engine, a),
        stratum_truncate(engine, a, 0),
        stratum_length(engine, a, &id),
        stratum_get_memory(engine, &memory),
        stratum_describe(engine, &json),
        stratum_training_bytes(engine, 1, 1, &bytes, &bytes),
        stratum_training_reserve(engine, 1),
        stratum_device_allocate(engine, 1, 0, &data),
        stratum_current_device(&device),
        stratum_host_memory(&device),
        stratum_build(standard_config().dump().c_str(), standard_pack().c_str(), &other),
        stratum_build("{}", "/nowhere", &other),
    };
    int number = 0;
    for (const stratum_status status : refused) {
      ++number;
      if (status != STRATUM_DEVICE_ERROR) return number;
    }
    if (message().find("forked") == std::string::npos) return 50;
    if (stratum_training_release(engine, 1) != STRATUM_OK) return 51;
    if (stratum_device_free(engine, 16, 0) != STRATUM_OK) return 52;
    if (stratum_close(engine) != STRATUM_OK) return 53;
    return emulator_calls(nullptr) == 0 ? 0 : 54;
  });
  CHECK(failed == 0);
  REQUIRE_STATUS(serving.decode(engine, {a}, {1}), STRATUM_OK);
}

TEST_CASE("A fork while another thread is inside a call does not hang the child") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create();
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    const ServingCall call(1);
    while (!stop) {
      call.decode(engine, {a}, {1});
      stratum_truncate(engine, a, 0);
    }
  });
  for (int i = 0; i < 20; ++i) {
    CHECK(in_child([&] {
            int64_t id = 0;
            if (stratum_create(engine, &id) != STRATUM_DEVICE_ERROR) return 1;
            return stratum_close(engine) == STRATUM_OK ? 0 : 2;
          }) == 0);
  }
  stop = true;
  busy.join();
}
