// Device memory: sized when the engine is built, counted to the byte, within memory_limit_bytes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <span>

#include "error.h"
#include "serving_sizes.h"
#include "support.h"

namespace {

using namespace support;

// Of standard_config: 2 kv heads, 64 tokens, 2 x 64 + 32 elements of 2 bytes.
constexpr int64_t kPageBytes = 2 * 64 * (2 * 64 + 32) * 2;
constexpr int64_t kPages = 2048 / 64 + 2 * 4 - 1;
// One sequence of 1,024 tokens: 2 splits, 2 kv heads, 8 tokens of 4 heads, 64 floats and 2 statistics each.
constexpr int64_t kLeastPartials = 2 * 2 * 8 * 4 * (64 * 4 + 8);

json with_limit(int64_t limit) {
  json config = standard_config();
  config["memory_limit_bytes"] = limit;
  return config;
}

}  // namespace

TEST_CASE("What an engine holds is what it allocated, to the byte") {
  const LeakCheck leaks;
  const int64_t before = emulator_live_bytes();
  const TestEngine engine;
  const stratum_memory memory = engine.memory();
  CHECK(memory.bytes_cache == kPages * kPageBytes);
  CHECK(memory.bytes_partials == 4 * kLeastPartials);  // all four sequences at once
  CHECK(memory.bytes_held == memory.bytes_cache + memory.bytes_partials + memory.bytes_metadata);
  CHECK(memory.bytes_held == emulator_live_bytes() - before);
  CHECK(memory.bytes_peak == memory.bytes_held);
  CHECK(memory.bytes_limit == -1);
  CHECK(memory.pages_total == kPages);
  CHECK(memory.pages_free == kPages);
  CHECK(memory.page_tokens == 64);
  // Nothing more is ever allocated by a call.
  const int64_t id = engine.create();
  prefill_tokens(engine, id, 700);
  REQUIRE_STATUS(ServingCall(8).decode(engine, {id}, {8}), STRATUM_OK);
  CHECK(memory.bytes_held == emulator_live_bytes() - before);
  CHECK(engine.memory().pages_used == 12);
}

TEST_CASE("Partials shrink to fit the limit, and the work goes in waves") {
  const LeakCheck leaks;
  const TestEngine roomy;
  const int64_t full = roomy.memory().bytes_held;
  // Room for one sequence's partials and some of the second's.
  const int64_t limit = full - 3 * kLeastPartials + 1000;
  const TestEngine engine(with_limit(limit));
  CHECK(engine.memory().bytes_held <= limit);
  CHECK(engine.memory().bytes_partials >= kLeastPartials);
  CHECK(engine.memory().bytes_partials < 2 * kLeastPartials);
  std::vector<int64_t> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(engine.create());
    prefill_tokens(engine, ids.back(), 500);
  }
  for (const auto& [tokens, waves] : {std::pair(8, 2), std::pair(4, 1)}) {
    emulator_reset();
    // One split while 500 + n <= 512: of two sequences at 8 tokens each, of four at 4.
    REQUIRE_STATUS(ServingCall(4 * tokens).decode(engine, ids, std::vector<int64_t>(4, tokens)), STRATUM_OK);
    CHECK(emulator_launch_count() == 1 + 2 * waves);
  }
}

TEST_CASE("A limit one byte short is refused with the bytes needed; with them it is accepted") {
  const LeakCheck leaks;
  int64_t needed = 0;
  {
    const TestEngine roomy;
    needed = roomy.memory().bytes_held - 3 * kLeastPartials;
  }
  stratum_engine engine = 0;
  REQUIRE(stratum_build(with_limit(needed - 1).dump().c_str(), standard_pack().c_str(), &engine) ==
          STRATUM_CONFIG_ERROR);
  CHECK(std::string(stratum_error_argument()) == "memory_limit_bytes");
  CHECK_THAT(message(), Catch::Contains("expected at least " + std::to_string(needed)) &&
                            Catch::Contains("got " + std::to_string(needed - 1)));
  const TestEngine exact(with_limit(needed));
  CHECK(exact.memory().bytes_held == needed);
}

TEST_CASE("Training workspace counts, and may not pass the limit") {
  const LeakCheck leaks;
  json config = with_limit(1000);
  config["modes"] = {"training"};
  const TestEngine engine(config);
  CHECK(engine.memory().bytes_held == 0);
  int64_t stats = 0, delta = 0;
  REQUIRE_STATUS(stratum_training_bytes(engine, 2, 3, &stats, &delta), STRATUM_OK);
  CHECK(stats == 2 * 3 * 8 * 8);
  CHECK(delta == 2 * 3 * 8 * 4);
  REQUIRE_STATUS(stratum_training_reserve(engine, 600), STRATUM_OK);
  CHECK(stratum_training_reserve(engine, 401) == STRATUM_MEMORY_LIMIT);
  CHECK(message() == "memory_limit_bytes: 401 bytes are needed beyond the 600 held, the limit is 1000");
  REQUIRE_STATUS(stratum_training_reserve(engine, 400), STRATUM_OK);
  CHECK(engine.memory().bytes_training == 1000);
  REQUIRE_STATUS(stratum_training_release(engine, 1000), STRATUM_OK);
  CHECK(engine.memory().bytes_held == 0);
  CHECK(engine.memory().bytes_peak == 1000);
  CHECK(stratum_training_release(engine, 1) == STRATUM_SHAPE_ERROR);
  const TestEngine unlimited;
  CHECK(stratum_training_reserve(unlimited, INT64_MAX) == STRATUM_MEMORY_LIMIT);  // beside what it holds
  CHECK(stratum_training_bytes(engine, -1, 3, &stats, &delta) == STRATUM_SHAPE_ERROR);
  CHECK(stratum_training_bytes(engine, INT32_MAX, 1 << 30, &stats, &delta) == STRATUM_SHAPE_ERROR);
}

TEST_CASE("Memory for callers without an allocator outlives the engine") {
  const LeakCheck leaks;
  uint64_t data = 0;
  stratum_engine handle = 0;
  REQUIRE_STATUS(stratum_build(standard_config().dump().c_str(), standard_pack().c_str(), &handle), STRATUM_OK);
  REQUIRE_STATUS(stratum_device_allocate(handle, 100, 0, &data), STRATUM_OK);
  REQUIRE_STATUS(stratum_training_reserve(handle, 100), STRATUM_OK);
  REQUIRE_STATUS(stratum_close(handle), STRATUM_OK);
  REQUIRE_STATUS(stratum_device_free(handle, data, 0), STRATUM_OK);
  REQUIRE_STATUS(stratum_training_release(handle, 100), STRATUM_OK);
}

TEST_CASE("Sizes stay right far beyond 32 bits") {
  stratum::Config config;
  config.head_dim = 128;
  config.gate_dim = 64;
  config.q_heads = 64;
  config.kv_heads = 64;
  config.max_sequences = 1024;
  config.max_seq_len = 131072;
  config.max_cached_tokens = int64_t{1} << 30;
  const stratum::ServingSizes sizes = stratum::size_serving(config, 64, stratum::DecodeKind::kSplit);
  CHECK(sizes.pages == (int64_t{1} << 24) + 2047);
  CHECK(sizes.page_bytes == int64_t{64} * 64 * 320 * 2);
  CHECK(sizes.cache_bytes == sizes.pages * sizes.page_bytes);
  // One sequence needs more than the target: 256 splits, 64 heads, 8 rows.
  CHECK(sizes.partial_slots == 256 * 64 * 8);
  CHECK(sizes.bounds.table_stride == 2048);
}

TEST_CASE("Sizes that no 64-bit address reaches are refused, naming what asks for them") {
  stratum::Config config;
  config.head_dim = config.gate_dim = INT32_MAX;
  config.q_heads = config.kv_heads = 1;
  config.max_sequences = 1;
  config.max_seq_len = 1024;
  config.max_cached_tokens = 1024;
  const auto blamed = [&] {
    try {
      stratum::size_serving(config, 64, stratum::DecodeKind::kSplit);
      return std::string("none");
    } catch (const stratum::Error& error) {
      CHECK(error.status() == STRATUM_CONFIG_ERROR);
      return error.argument();
    }
  };
  CHECK(stratum::size_serving(config, 64, stratum::DecodeKind::kSplit).page_bytes == int64_t{64} * 3 * INT32_MAX * 2);
  CHECK(blamed() == "none");
  config.q_heads = config.kv_heads = 65535;
  CHECK(blamed() == "none");
  config.max_seq_len = 1 << 24;
  CHECK(blamed() == "max_seq_len");
  config.max_cached_tokens = int64_t{1} << 36;
  CHECK(blamed() == "max_cached_tokens");
}

TEST_CASE("STRATUM_POISON fills what the engine holds with NaNs") {
  const LeakCheck leaks;
  setenv("STRATUM_POISON", "1", 1);
  const TestEngine engine;
  unsetenv("STRATUM_POISON");
  // Of each buffer, what a call doesn't write: the emulator runs no kernel, and of the metadata one token's call
  // takes a few bytes at the front.
  const auto all_ones = [](const void* data, int64_t bytes) {
    return std::ranges::all_of(std::span(static_cast<const uint8_t*>(data), static_cast<size_t>(bytes)),
                               [](uint8_t byte) { return byte == 0xFF; });
  };
  const stratum_memory memory = engine.memory();
  REQUIRE_STATUS(ServingCall(1).decode(engine, {engine.create()}, {1}), STRATUM_OK);
  const auto decode = params<stratum::abi::GatedDecodeParams>(launch(1));
  CHECK(all_ones(decode.cache, memory.bytes_cache));
  CHECK(all_ones(decode.partial_o, memory.bytes_partials));
  constexpr int64_t kFront = 192;
  REQUIRE(memory.bytes_metadata > kFront);
  CHECK(all_ones(reinterpret_cast<const uint8_t*>(decode.sequences) + kFront, memory.bytes_metadata - kFront));
}
