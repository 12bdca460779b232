// Every driver call of every operation is made to fail once. Each time the operation reports it and leaves everything
// as it was, nothing leaks, and the same operation then succeeds.
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>

#include "support.h"

namespace {

using namespace support;

constexpr int kUnknownError = 999;

// Calls whose failure cannot be mended and is no reason to call the work undone.
const std::set<std::string> kIgnored = {"cuThreadExchangeStreamCaptureMode", "cuCtxPopCurrent_v2"};

std::map<std::string, int64_t> calls_so_far() {
  std::map<std::string, int64_t> calls;
  for (int64_t i = 0; const char* name = emulator_called(i); ++i) calls[name] = emulator_calls(name);
  return calls;
}

// What a failed call must leave as it was.
std::vector<int64_t> bookkeeping(const TestEngine& engine, const std::vector<int64_t>& ids) {
  const stratum_memory memory = engine.memory();
  std::vector<int64_t> facts = {memory.bytes_held, memory.pages_free,     memory.pages_shared,
                                memory.sequences,  memory.bytes_training, memory.pages_used};
  for (const int64_t id : ids) facts.push_back(engine.length(id));
  return facts;
}

// An engine in a state in which a serving call copies a page, waits for a staging slot and for another stream's call.
struct Scene {
  Scene() : stream(emulator_stream_create(kDeviceSm90)) {
    const int64_t parent = engine.create();
    prefill_tokens(engine, parent, 70);
    ids = {parent, engine.fork(parent), engine.create()};
    for (int i = 0; i < 4; ++i) prefill_tokens(engine, ids[2], 30);
  }
  ~Scene() { emulator_stream_destroy(stream); }

  TestEngine engine;
  std::vector<int64_t> ids;
  uint64_t stream;
  const ServingCall serving{6};
  const TrainingCall training{2, 70};
};

using Operation = std::function<stratum_status(const Scene&)>;

void fail_each_call(const Operation& operation, const std::set<std::string>& expected_calls) {
  std::map<std::string, int64_t> calls;
  {
    const Scene scene;
    emulator_reset();
    REQUIRE_STATUS(operation(scene), STRATUM_OK);
    calls = calls_so_far();
  }
  for (const std::string& name : expected_calls) {
    INFO(name);
    CHECK(calls.contains(name));
  }
  for (const auto& [name, count] : calls) {
    if (kIgnored.contains(name)) continue;
    for (int64_t nth = 1; nth <= count; ++nth) {
      INFO(name << ", call " << nth << " of " << count);
      const LeakCheck leaks;
      const Scene scene;
      const auto before = bookkeeping(scene.engine, scene.ids);
      emulator_reset();
      emulator_fail(name.c_str(), nth, kUnknownError);
      CHECK(operation(scene) == STRATUM_DRIVER_ERROR);
      CHECK_THAT(message(), Catch::StartsWith(name + " failed: CUDA_ERROR_UNKNOWN"));
      CHECK(bookkeeping(scene.engine, scene.ids) == before);
      CHECK(emulator_context_depth() == 0);
      REQUIRE_STATUS(operation(scene), STRATUM_OK);
    }
  }
}

}  // namespace

TEST_CASE("Each driver call of prefill fails once") {
  fail_each_call(
      [](const Scene& scene) {
        return scene.serving.prefill(scene.engine, scene.ids, {1, 2, 3}, scene.stream);
      },
      {"cuMemcpyHtoDAsync_v2", "cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent",
       "cuStreamIsCapturing", "cuStreamGetId", "cuCtxPushCurrent_v2"});
}

TEST_CASE("Each driver call of decode fails once") {
  fail_each_call(
      [](const Scene& scene) {
        return scene.serving.decode(scene.engine, scene.ids, {1, 2, 3}, scene.stream);
      },
      {"cuMemcpyHtoDAsync_v2", "cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent"});
}

TEST_CASE("Each driver call of forward and backward fails once") {
  fail_each_call([](const Scene& scene) { return scene.training.forward(scene.engine, scene.stream); },
                 {"cuLaunchKernel"});
  fail_each_call([](const Scene& scene) { return scene.training.backward(scene.engine, scene.stream); },
                 {"cuLaunchKernel"});
}

TEST_CASE("A failed launch names the kernel") {
  const LeakCheck leaks;
  const Scene scene;
  emulator_fail("cuLaunchKernel", 2, kUnknownError);
  CHECK(scene.training.backward(scene.engine) == STRATUM_DRIVER_ERROR);
  CHECK(message() ==
        "cuLaunchKernel failed: CUDA_ERROR_UNKNOWN (unknown error), kernel "
        "gated_bwd_dkv_sm90_bf16_d64_r32_g0_m64");
}

TEST_CASE("A call that fails half way waits for what it queued before pages go back") {
  const LeakCheck leaks;
  const Scene scene;
  emulator_reset();
  emulator_fail("cuLaunchKernel", 3, kUnknownError);
  CHECK(scene.serving.decode(scene.engine, scene.ids, {1, 2, 3}, scene.stream) == STRATUM_DRIVER_ERROR);
  CHECK(emulator_calls("cuStreamSynchronize") == 1);
}

TEST_CASE("Each driver call of allocating and freeing for a caller fails once") {
  const LeakCheck leaks;
  const TestEngine engine;
  uint64_t data = 0;
  for (const char* name : {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuMemAllocAsync"}) {
    emulator_fail(name, 1, kUnknownError);
    CHECK(stratum_device_allocate(engine, 64, 0, &data) == STRATUM_DRIVER_ERROR);
  }
  REQUIRE_STATUS(stratum_device_allocate(engine, 64, 0, &data), STRATUM_OK);
  for (const char* name : {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuMemFreeAsync"}) {
    emulator_fail(name, 1, kUnknownError);
    CHECK(stratum_device_free(engine, data, 0) == STRATUM_DRIVER_ERROR);
  }
  REQUIRE_STATUS(stratum_device_free(engine, data, 0), STRATUM_OK);
}

TEST_CASE("Each driver call of building an engine fails once") {
  // Bytes that are new each time, so that every build loads its modules.
  int packs = 0;
  const auto build_from_new_pack = [&](const std::string& name, int64_t nth) {
    const TemporaryFolder folder;
    auto rows = stratum_rows("sm_90", "bfloat16", 64, 32);
    for (auto& row : rows) row.name += "_build" + std::to_string(packs);
    ++packs;
    write_pack(folder.path(), rows);
    const auto build = [&] {
      stratum_engine engine = 0;
      const stratum_status status = stratum_build(standard_config().dump().c_str(), folder.path().c_str(), &engine);
      if (status == STRATUM_OK) stratum_close(engine);
      return status;
    };
    emulator_reset();
    if (nth > 0) {
      emulator_fail(name.c_str(), nth, kUnknownError);
      CHECK(build() == STRATUM_DRIVER_ERROR);
      CHECK_THAT(message(), Catch::StartsWith(name + " failed: CUDA_ERROR_UNKNOWN"));
      CHECK(emulator_context_depth() == 0);
    }
    REQUIRE(build() == STRATUM_OK);
  };
  setenv("STRATUM_POISON", "1", 1);
  build_from_new_pack("", 0);
  auto calls = calls_so_far();
  // Of closing, below.
  for (const char* name : {"cuMemFree_v2", "cuMemFreeHost", "cuEventDestroy_v2"}) calls.erase(name);
  calls["cuCtxGetCurrent"] = 1;
  calls["cuCtxPushCurrent_v2"] = 1;
  calls["cuDevicePrimaryCtxRetain"] = 0;  // retained long ago
  for (const char* name :
       {"cuInit", "cuMemAlloc_v2", "cuMemHostAlloc", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncLoad",
        "cuFuncSetAttribute", "cuEventCreate", "cuMemsetD8Async", "cuStreamSynchronize", "cuDeviceGetAttribute"}) {
    INFO(name);
    CHECK(calls[name] > 0);
  }
  for (const auto& [name, count] : calls) {
    if (kIgnored.contains(name)) continue;
    for (int64_t nth = 1; nth <= count; ++nth) {
      INFO(name << ", call " << nth << " of " << count);
      const LeakCheck leaks;
      const int64_t modules = emulator_live("module");
      build_from_new_pack(name, nth);
      CHECK(emulator_live("module") == modules + 8);  // one for each kernel, none left from the failed build
    }
  }
  unsetenv("STRATUM_POISON");
}

TEST_CASE("Each driver call of closing fails once") {
  const auto open = [] {
    stratum_engine engine = 0;
    REQUIRE_STATUS(stratum_build(standard_config().dump().c_str(), standard_pack().c_str(), &engine), STRATUM_OK);
    int64_t id = 0;
    REQUIRE_STATUS(stratum_create(engine, &id), STRATUM_OK);
    prefill_tokens(engine, id, 10);
    return engine;
  };
  // The engine stays open where its context cannot be entered or its work not waited for, and nothing of it is freed;
  // the next try closes it.
  for (const auto& [name, nth] :
       {std::pair("cuCtxGetCurrent", 2), std::pair("cuCtxPushCurrent_v2", 1), std::pair("cuEventSynchronize", 1)}) {
    INFO(name);
    const LeakCheck leaks;
    const int64_t before = emulator_live_bytes();
    const stratum_engine engine = open();
    emulator_fail(name, nth, kUnknownError);
    CHECK(stratum_close(engine) == STRATUM_DRIVER_ERROR);
    stratum_memory memory{};
    REQUIRE_STATUS(stratum_get_memory(engine, &memory), STRATUM_OK);
    CHECK(emulator_live_bytes() == before + memory.bytes_held);
    REQUIRE_STATUS(ServingCall(1).decode(engine, {1}, {1}), STRATUM_OK);
    REQUIRE_STATUS(stratum_close(engine), STRATUM_OK);
  }
  // Where the driver has ended already (CUDA_ERROR_DEINITIALIZED, at exit) there is nothing to complain about.
  const LeakCheck leaks;
  const stratum_engine engine = open();
  emulator_set_current_device(kDeviceSm90);  // for the frees, which a driver that has ended would ignore
  emulator_fail("cuCtxGetCurrent", 1, 4);
  REQUIRE_STATUS(stratum_close(engine), STRATUM_OK);
  emulator_reset();  // this driver has not ended: it notes that a copy was not waited for
  emulator_set_current_device(-1);
}
