// Prefill and decode: what is launched with which parameters, order over streams, page copies, staging.
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "support.h"

namespace {

using namespace support;
namespace abi = stratum::abi;
using Names = std::vector<std::string>;

// Device memory is host memory, so what a kernel would read can be read here.
template <typename T>
std::vector<T> read(const T* data, int64_t count) {
  return {data, data + count};
}

}  // namespace

TEST_CASE("Prefill: slices, block table and tiles as the kernels expect them") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create(), b = engine.create(), c = engine.create();
  prefill_tokens(engine, b, 100);
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  emulator_reset();
  const ServingCall call(70 + 30);
  REQUIRE_STATUS(call.prefill(engine, {a, c, b}, {70, 0, 30}, stream), STRATUM_OK);
  REQUIRE(launched() == Names{"append", "prefill"});
  CHECK(emulator_calls("cuMemcpyHtoDAsync_v2") == 1);

  const auto append = params<abi::GatedAppendParams>(launch(0));
  CHECK((append.num_tokens == 100 && append.num_sequences == 2 && append.kv_heads == 2));
  CHECK(append.table_stride == 3);
  CHECK(launch(0).grid[0] == 7);  // ceil(100 / 16)
  CHECK(launch(0).grid[1] == 2);
  CHECK(reinterpret_cast<uint64_t>(append.kg.data) == call.kg.view.data);
  CHECK(append.kg.token == 2 * 32);
  const auto slices = read(append.sequences, 2);
  CHECK((slices[0].first_token == 0 && slices[0].num_tokens == 70 && slices[0].cached == 0));
  CHECK((slices[1].first_token == 70 && slices[1].num_tokens == 30 && slices[1].cached == 100));
  // b took pages 0 and 1 first; a then 2 and 3, b one more.
  CHECK(read(append.block_table, 6) == std::vector<int32_t>{2, 3, 0, 0, 1, 4});

  const auto prefill = params<abi::GatedPrefillParams>(launch(1));
  CHECK(launch(1).grid[0] == 3 * 8);
  CHECK(launch(1).stream == stream);
  CHECK(prefill.num_items == 3);
  const auto items = read(prefill.items, 3);  // visible keys 130, 70, 64
  CHECK((items[0].sequence == 1 && items[0].index == 0));
  CHECK((items[1].sequence == 0 && items[1].index == 1));
  CHECK((items[2].sequence == 0 && items[2].index == 0));
  CHECK(prefill.cache == append.cache);
  CHECK(prefill.softmax_scale_log2 == static_cast<float>(std::log2(std::exp(1.0)) / 8));
  CHECK(engine.length(a) == 70);
  CHECK(engine.length(b) == 130);
  CHECK(engine.length(c) == 0);
  emulator_stream_destroy(stream);
}

TEST_CASE("Nothing new launches nothing") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create(), b = engine.create();
  emulator_reset();
  REQUIRE_STATUS(ServingCall(0).prefill(engine, {a, b}, {0, 0}), STRATUM_OK);
  REQUIRE_STATUS(ServingCall(0).prefill(engine, {}, {}), STRATUM_OK);
  REQUIRE_STATUS(ServingCall(0).decode(engine, {}, {}), STRATUM_OK);
  CHECK(emulator_launch_count() == 0);
  CHECK(emulator_calls("cuMemcpyHtoDAsync_v2") == 0);
}

TEST_CASE("Decode: splits, rows and partials as the kernels expect them") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create(), b = engine.create();
  prefill_tokens(engine, a, 512);
  prefill_tokens(engine, b, 10);
  emulator_reset();
  const ServingCall call(4);
  REQUIRE_STATUS(call.decode(engine, {a, b}, {1, 3}), STRATUM_OK);
  REQUIRE(launched() == Names{"append", "dec", "dec_merge"});
  const auto decode = params<abi::GatedDecodeParams>(launch(1));
  CHECK(decode.rows_stride == 3 * 4);
  CHECK(decode.num_items == 3);
  CHECK(launch(1).grid[0] == 3 * 2 * 1);  // items, kv heads, one tile of 64 rows
  const auto items = read(decode.items, 3);
  CHECK((items[0].sequence == 0 && items[0].index == 0));
  CHECK((items[1].sequence == 0 && items[1].index == 1));
  CHECK((items[2].sequence == 1 && items[2].index == 0));
  const auto slices = read(decode.sequences, 2);
  CHECK((slices[0].cached == 512 && slices[0].num_tokens == 1 && slices[0].first_split == 0));
  CHECK((slices[1].cached == 10 && slices[1].num_tokens == 3 && slices[1].first_split == 2));

  const auto merge = params<abi::GatedDecodeMergeParams>(launch(2));
  CHECK(merge.partial_o == decode.partial_o);
  CHECK(merge.partial_stats == decode.partial_stats);
  CHECK((merge.first_sequence == 0 && merge.num_sequences == 2 && merge.first_token == 0 && merge.num_tokens == 4));
  CHECK(merge.rows_stride == 12);
  CHECK(launch(2).grid[0] == 4 * 8 / 4);  // a warp a (token, head), four warps a block
  CHECK(reinterpret_cast<uint64_t>(merge.o.data) == call.o.view.data);
  // The statistics lie behind every slot's output.
  const int64_t slots = engine.memory().bytes_partials / (64 * 4 + 8);
  CHECK(reinterpret_cast<const char*>(decode.partial_stats) - reinterpret_cast<const char*>(decode.partial_o) ==
        slots * 64 * 4);
}

TEST_CASE("A batch-invariant engine decodes with prefill's kernel") {
  const LeakCheck leaks;
  json config = standard_config();
  config["batch_invariant"] = true;
  config["modes"] = {"decode"};
  const TestEngine engine(config);
  CHECK(engine.memory().bytes_partials == 0);
  const int64_t a = engine.create();
  emulator_reset();
  REQUIRE_STATUS(ServingCall(5).decode(engine, {a}, {5}), STRATUM_OK);
  CHECK(launched() == Names{"append", "prefill"});
}

TEST_CASE("A fork's first write copies the shared page, before the append, on the call's stream") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t parent = engine.create();
  prefill_tokens(engine, parent, 70);
  const int64_t child = engine.fork(parent);
  CHECK(engine.memory().pages_shared == 2);
  CHECK(engine.memory().pages_used == 2);
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  emulator_reset();
  REQUIRE_STATUS(ServingCall(1).decode(engine, {child}, {1}, stream), STRATUM_OK);
  REQUIRE(launched() == Names{"page_copy", "append", "dec", "dec_merge"});
  const auto copy = params<abi::GatedPageCopyParams>(launch(0));
  CHECK(copy.page_bytes == 2 * 64 * 160 * 2);
  CHECK((copy.copies[0].source == 1 && copy.copies[0].target == 2));
  CHECK(launch(0).grid[0] == 1);
  CHECK(launch(0).stream == stream);
  CHECK(engine.memory().pages_shared == 1);
  // The parent has its page to itself now.
  emulator_reset();
  REQUIRE_STATUS(ServingCall(1).decode(engine, {parent}, {1}, stream), STRATUM_OK);
  CHECK(launched() == Names{"append", "dec", "dec_merge"});
  REQUIRE_STATUS(stratum_truncate(engine, child, 64), STRATUM_OK);
  CHECK(engine.memory().pages_used == 2);
  REQUIRE_STATUS(stratum_release(engine, child), STRATUM_OK);
  REQUIRE_STATUS(stratum_release(engine, parent), STRATUM_OK);
  CHECK(engine.memory().pages_free == engine.memory().pages_total);
  CHECK(stratum_release(engine, parent) == STRATUM_UNKNOWN_SEQUENCE);
  emulator_stream_destroy(stream);
}

TEST_CASE("Every launch is on the caller's stream; another stream waits for the last call") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create();
  const uint64_t first = emulator_stream_create(kDeviceSm90), second = emulator_stream_create(kDeviceSm90);
  const auto waits_of_call_on = [&](uint64_t stream) {
    emulator_reset();
    REQUIRE_STATUS(ServingCall(3).decode(engine, {a}, {3}, stream), STRATUM_OK);
    for (int64_t i = 0; i < emulator_launch_count(); ++i) CHECK(launch(i).stream == stream);
    CHECK(emulator_calls("cuEventRecord") == 1);
    CHECK(emulator_calls("cuStreamSynchronize") == 0);
    CHECK(emulator_calls("cuMemAlloc_v2") == 0);
    return emulator_calls("cuStreamWaitEvent");
  };
  CHECK(waits_of_call_on(first) == 0);
  CHECK(waits_of_call_on(first) == 0);
  CHECK(waits_of_call_on(second) == 1);
  CHECK(waits_of_call_on(second) == 0);
  CHECK(waits_of_call_on(0) == 1);
  CHECK(waits_of_call_on(first) == 1);
  emulator_stream_destroy(first);
  emulator_stream_destroy(second);
  // A new stream may get a dead one's handle; the driver's id tells them apart.
  const uint64_t third = emulator_stream_create(kDeviceSm90);
  CHECK(waits_of_call_on(third) == 1);
  emulator_stream_destroy(third);
}

TEST_CASE("The staging ring waits when it is full and never overwrites what a copy may be reading") {
  const LeakCheck leaks;  // the emulator notes a slot that is written or used again too early
  const TestEngine engine;
  const int64_t a = engine.create();
  const uint64_t streams[] = {emulator_stream_create(kDeviceSm90), emulator_stream_create(kDeviceSm90)};
  emulator_reset();
  for (int call = 0; call < 20; ++call) {
    REQUIRE_STATUS(ServingCall(1).decode(engine, {a}, {1}, streams[call % 2]), STRATUM_OK);
    CHECK(emulator_copies_in_flight() <= 4);
    CHECK(emulator_calls("cuEventSynchronize") == std::max(0, call + 1 - 4));
  }
  for (const uint64_t stream : streams) emulator_stream_destroy(stream);
}

TEST_CASE("Lengths are checked before anything is launched") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create(), b = engine.create();
  prefill_tokens(engine, a, 1020);
  emulator_reset();
  const auto refuse = [&](stratum_status status, stratum_status expected, const std::string& argument) {
    INFO(message());
    CHECK(status == expected);
    CHECK(std::string(stratum_error_argument()) == argument);
    CHECK(emulator_launch_count() == 0);
  };
  refuse(ServingCall(5).prefill(engine, {a}, {5}), STRATUM_LENGTH_ERROR, "lengths");
  CHECK(message() == "lengths: expected 0 to 4 new tokens for sequence 1 (max_seq_len 1024, 1020 cached), got 5");
  refuse(ServingCall(5).prefill(engine, {b}, {4}), STRATUM_LENGTH_ERROR, "lengths");
  CHECK(message() == "lengths: expected a sum of 5, the rows of q, got 4");
  refuse(ServingCall(5).prefill(engine, {b, a}, {6, -1}), STRATUM_LENGTH_ERROR, "lengths");
  refuse(ServingCall(9).decode(engine, {b}, {9}), STRATUM_LENGTH_ERROR, "lengths");
  refuse(ServingCall(1).decode(engine, {b, a}, {1, 0}), STRATUM_LENGTH_ERROR, "lengths");
  refuse(ServingCall(2).decode(engine, {b, b}, {1, 1}), STRATUM_LENGTH_ERROR, "ids");
  refuse(ServingCall(1).decode(engine, {77}, {1}), STRATUM_UNKNOWN_SEQUENCE, "id");
  refuse(stratum_truncate(engine, a, 1021), STRATUM_LENGTH_ERROR, "length");
  CHECK(engine.length(a) == 1020);
  CHECK(engine.length(b) == 0);
  REQUIRE_STATUS(ServingCall(4).prefill(engine, {a}, {4}), STRATUM_OK);
}

TEST_CASE("Arrays of a serving call are checked, and the engine works after") {
  const LeakCheck leaks;
  const TestEngine engine;
  const int64_t a = engine.create();
  emulator_reset();
  ServingCall call(4);
  call.k.view.data += 2;
  CHECK(call.prefill(engine, {a}, {4}) == STRATUM_STRIDE_ERROR);
  call = ServingCall(4);
  call.qg.view.stride[0] = 257;
  CHECK(call.prefill(engine, {a}, {4}) == STRATUM_STRIDE_ERROR);
  call = ServingCall(4);
  for (const int64_t stride : {0, 8, 504}) {
    call.o.view.stride[0] = stride;
    CHECK(call.decode(engine, {a}, {4}) == STRATUM_STRIDE_ERROR);
  }
  call = ServingCall(4);
  call.kg.view.shape[0] = 3;
  CHECK(call.decode(engine, {a}, {4}) == STRATUM_SHAPE_ERROR);
  call = ServingCall(4);
  call.v.view.device = 1;
  CHECK(call.decode(engine, {a}, {4}) == STRATUM_DEVICE_ERROR);
  CHECK(emulator_launch_count() == 0);
  CHECK(engine.length(a) == 0);
  REQUIRE_STATUS(ServingCall(4).decode(engine, {a}, {4}), STRATUM_OK);
}

TEST_CASE("Pages run out, nothing changes, a smaller call succeeds") {
  const LeakCheck leaks;
  json config = standard_config();
  config["max_cached_tokens"] = 64;  // 1 page, and 1 more for a sequence alone
  config["max_sequences"] = 1;
  const TestEngine engine(config);
  const int64_t a = engine.create();
  emulator_reset();
  CHECK(ServingCall(129).prefill(engine, {a}, {129}) == STRATUM_PAGES_EXHAUSTED);
  CHECK(message() == "needed 3 pages of 64 tokens, 2 free of 2");
  CHECK(engine.memory().pages_free == 2);
  CHECK(engine.length(a) == 0);
  CHECK(emulator_launch_count() == 0);
  REQUIRE_STATUS(ServingCall(128).prefill(engine, {a}, {128}), STRATUM_OK);
  int64_t id = 0;
  CHECK(stratum_create(engine, &id) == STRATUM_PAGES_EXHAUSTED);
  CHECK(std::string(stratum_error_argument()) == "max_sequences");
}

TEST_CASE("max_cached_tokens unique tokens always fit, whatever the forks") {
  const LeakCheck leaks;
  json config = standard_config();
  config["max_cached_tokens"] = 63 + 4 * 2;
  const TestEngine engine(config);
  CHECK(engine.memory().pages_total == 8);  // and all of them are needed
  std::vector<int64_t> ids{engine.create()};
  prefill_tokens(engine, ids[0], 63);
  for (int i = 0; i < 3; ++i) ids.push_back(engine.fork(ids[0]));
  REQUIRE_STATUS(ServingCall(8).decode(engine, ids, {2, 2, 2, 2}), STRATUM_OK);
  CHECK(engine.memory().pages_free == 0);
}

TEST_CASE("Prefill and decode on a stream under capture raise; closing an engine leaves a capture whole") {
  const LeakCheck leaks;
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  const TestEngine engine;
  const int64_t a = engine.create();
  {
    const TestEngine other;
    prefill_tokens(other, other.create(), 5);
    REQUIRE(emulator_stream_capture(stream, 1) == 1);
    emulator_reset();
    CHECK(ServingCall(1).decode(engine, {a}, {1}, stream) == STRATUM_DEVICE_ERROR);
    CHECK(std::string(stratum_error_argument()) == "stream");
    CHECK(ServingCall(1).prefill(engine, {a}, {1}, 0) == STRATUM_DEVICE_ERROR);  // the legacy stream is caught in it
    CHECK(engine.length(a) == 0);
  }  // the other engine is closed during the capture
  const TestEngine built_meanwhile;
  // A full staging ring waits during the capture.
  const uint64_t bystander = emulator_stream_create(kDeviceSm90);
  for (int i = 0; i < 10; ++i) {
    REQUIRE_STATUS(ServingCall(1).decode(engine, {a}, {1}, bystander), STRATUM_OK);
  }
  CHECK(emulator_stream_capture(stream, 0) == 1);
  emulator_stream_destroy(stream);
  emulator_stream_destroy(bystander);
}

TEST_CASE("The caller's current context is as before after every call") {
  const LeakCheck leaks;
  for (const int device : {-1, kDeviceSm90, kDeviceSm80}) {
    emulator_set_current_device(device);
    const auto unchanged = [&] {
      CHECK(emulator_current_device() == device);
      CHECK(emulator_context_depth() == (device < 0 ? 0 : 1));
    };
    {
      const TestEngine engine;
      unchanged();
      const int64_t a = engine.create();
      prefill_tokens(engine, a, 5);
      unchanged();
      REQUIRE_STATUS(TrainingCall(1, 5).forward(engine), STRATUM_OK);
      unchanged();
      CHECK(ServingCall(5).prefill(engine, {a}, {4}) == STRATUM_LENGTH_ERROR);
      unchanged();
      CHECK(ServingCall(5).prefill(engine, {a}, {5}, 0xdead) == STRATUM_DRIVER_ERROR);
      unchanged();
      int32_t current = -1;
      REQUIRE_STATUS(stratum_current_device(&current), STRATUM_OK);
      CHECK(current == std::max(device, 0));
    }
    unchanged();
  }
  emulator_set_current_device(-1);
}

TEST_CASE("Two devices: kernels are loaded and launched on the engine's own") {
  const LeakCheck leaks;
  json config = standard_config();
  config["device"] = kDeviceSm80;
  const TestEngine engine(config), other;
  emulator_reset();
  prefill_tokens(engine, engine.create(), 3);
  CHECK(launch(0).device == kDeviceSm80);
  CHECK_THAT(launch(0).kernel, Catch::Contains("_sm80_"));
  prefill_tokens(other, other.create(), 3);
  CHECK(launch(2).device == kDeviceSm90);
  CHECK_THAT(launch(2).kernel, Catch::Contains("_sm90_"));
}

TEST_CASE("Calls from several threads are serialised") {
  const LeakCheck leaks;
  json config = standard_config();
  config["max_sequences"] = 8;
  config["max_cached_tokens"] = 8192;
  const TestEngine engine(config);
  std::vector<int64_t> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(engine.create());
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (const int64_t id : ids) {
    threads.emplace_back([&, id] {
      const ServingCall call(3);
      for (int i = 0; i < 50; ++i) {
        failures += call.decode(engine, {id}, {3}, 2) != STRATUM_OK;  // each thread's own default stream
        int64_t fork = 0;
        failures += stratum_fork(engine, id, &fork) != STRATUM_OK;
        failures += stratum_release(engine, fork) != STRATUM_OK;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  for (const int64_t id : ids) CHECK(engine.length(id) == 150);
}

TEST_CASE("A closed engine is named in the error; closing again succeeds") {
  const LeakCheck leaks;
  stratum_engine handle = 0;
  REQUIRE_STATUS(stratum_build(standard_config().dump().c_str(), standard_pack().c_str(), &handle), STRATUM_OK);
  REQUIRE_STATUS(stratum_close(handle), STRATUM_OK);
  REQUIRE_STATUS(stratum_close(handle), STRATUM_OK);
  int64_t id = 0;
  CHECK(stratum_create(handle, &id) == STRATUM_DEVICE_ERROR);
  CHECK(message() == "engine: the engine is closed");
  CHECK(TrainingCall(1, 1).forward(handle) == STRATUM_DEVICE_ERROR);
  CHECK(stratum_close(handle + 1000) == STRATUM_DEVICE_ERROR);
  CHECK(stratum_create(0, &id) == STRATUM_DEVICE_ERROR);
}

TEST_CASE("What an engine says about itself stays readable after other calls and its end") {
  const LeakCheck leaks;
  const char* text = nullptr;
  {
    const TestEngine engine;
    REQUIRE_STATUS(stratum_describe(engine, &text), STRATUM_OK);
    prefill_tokens(engine, engine.create(), 3);
  }
  const json facts = json::parse(text);
  CHECK(facts["config"]["head_dim"] == 64);
  CHECK(facts["config"]["memory_limit_bytes"] == nullptr);
  CHECK(facts["config"]["modes"] == json{"training", "prefill", "decode"});
  CHECK(facts["device"]["name"] == "Emulated GPU 0");
  CHECK(facts["device"]["compute_capability"] == "9.0");
  REQUIRE(facts["kernels"].size() == 8);
  CHECK(facts["kernels"][0]["operation"] == "forward");
  CHECK(facts["kernels"][0]["name"] == "gated_fwd_sm90_bf16_d64_r32_g0_m64");
}
