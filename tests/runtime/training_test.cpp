// Forward and backward: checks before anything is launched, grids and parameters, captures.
#include <catch2/catch.hpp>
#include <cmath>

#include "support.h"

namespace {

using namespace support;
namespace abi = stratum::abi;

json training_config() {
  json config = standard_config();
  config["modes"] = {"training"};
  return config;
}

// Expects an error naming `argument` and nothing launched, then that the engine still works.
void check_refused(stratum_engine engine, const TrainingCall& call, stratum_status status,
                   const std::string& argument) {
  emulator_reset();
  const stratum_status got = call.forward(engine);
  INFO(message());
  CHECK(got == status);
  CHECK(std::string(stratum_error_argument()) == argument);
  CHECK(message().starts_with(argument + ": "));
  CHECK(emulator_launch_count() == 0);
  REQUIRE_STATUS(TrainingCall(1, 3).forward(engine), STRATUM_OK);
}

}  // namespace

TEST_CASE("Forward: one launch with the caller's arrays, strides and stream") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  const TrainingCall call(3, 130);
  emulator_reset();
  REQUIRE_STATUS(call.forward(engine, stream), STRATUM_OK);
  REQUIRE(launched() == std::vector<std::string>{"fwd"});
  const emulator_launch launched_forward = launch(0);
  CHECK(launched_forward.stream == stream);
  CHECK(launched_forward.grid[0] == 3 * 3 * 8);  // ceil(130 / 64) tiles, batch, heads
  CHECK(launched_forward.grid[1] == 1);
  CHECK(launched_forward.block[0] == kBlock);
  CHECK(launched_forward.shared_bytes == 65536);
  const auto p = params<abi::GatedForwardParams>(launched_forward);
  CHECK(reinterpret_cast<uint64_t>(p.k.data) == call.k.view.data);
  CHECK(p.k.batch == 130 * 2 * 64);
  CHECK(p.k.token == 2 * 64);
  CHECK(p.k.head == 64);
  CHECK(p.qg.token == 8 * 32);
  CHECK((p.batch == 3 && p.seq_len == 130 && p.q_heads == 8 && p.kv_heads == 2));
  CHECK(p.softmax_scale_log2 == static_cast<float>(std::log2(std::exp(1.0)) / 8));
  CHECK(p.gate_half_scale == static_cast<float>(0.5 / std::sqrt(32.0)));
  emulator_stream_destroy(stream);
}

TEST_CASE("Backward: dq, then dkv over the key/value heads, both on the caller's stream") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  const TrainingCall call(2, 65);
  emulator_reset();
  REQUIRE_STATUS(call.backward(engine, stream), STRATUM_OK);
  REQUIRE(launched() == std::vector<std::string>{"bwd_dq", "bwd_dkv"});
  CHECK(launch(0).grid[0] == 2 * 2 * 8);
  CHECK(launch(1).grid[0] == 2 * 2 * 2);
  for (const int64_t i : {0, 1}) {
    CHECK(launch(i).stream == stream);
    const auto p = params<abi::GatedBackwardParams>(launch(i));
    CHECK(reinterpret_cast<uint64_t>(p.dkg.data) == call.dkg.view.data);
    CHECK(reinterpret_cast<uint64_t>(p.dout.data) == call.dout.view.data);
    CHECK(p.softmax_scale == 0.125f);
    CHECK(p.gate_scale == static_cast<float>(1 / std::sqrt(32.0)));
  }
  emulator_stream_destroy(stream);
}

TEST_CASE("An empty batch and empty sequences succeed and launch nothing") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  for (const auto& [batch, seq_len] : {std::pair(0, 5), std::pair(5, 0), std::pair(0, 0)}) {
    const TrainingCall call(batch, seq_len);
    REQUIRE_STATUS(call.forward(engine), STRATUM_OK);
    REQUIRE_STATUS(call.backward(engine), STRATUM_OK);
  }
  CHECK(emulator_launch_count() == 0);
}

TEST_CASE("Misaligned addresses and strides are refused before any launch") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  for (const uint64_t offset : {2, 4, 8}) {
    TrainingCall call(1, 16);
    call.kg.view.data += offset;
    check_refused(engine, call, STRATUM_STRIDE_ERROR, "kg");
  }
  for (const int64_t stride : {129, 132}) {
    TrainingCall call(1, 4);
    call.v.view.stride[1] = stride;
    check_refused(engine, call, STRATUM_STRIDE_ERROR, "v");
  }
  TrainingCall call(1, 16);
  call.q.view.stride[3] = 2;
  check_refused(engine, call, STRATUM_STRIDE_ERROR, "q");
  call = TrainingCall(1, 16);
  call.q.view.data = 0;
  check_refused(engine, call, STRATUM_STRIDE_ERROR, "q");
}

TEST_CASE("Strides of axes of extent 1 do not matter; inputs may be expanded, outputs may not") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  TrainingCall call(1, 16);
  call.q.view.stride[0] = 3;
  REQUIRE_STATUS(call.forward(engine), STRATUM_OK);
  call = TrainingCall(2, 16);
  call.dout.view.stride[0] = 0;
  REQUIRE_STATUS(call.backward(engine), STRATUM_OK);
  call.dk.view.stride[0] = 0;
  CHECK(call.backward(engine) == STRATUM_STRIDE_ERROR);
  CHECK(std::string(stratum_error_argument()) == "dk");
  call = TrainingCall(2, 16);
  call.k.view.stride[1] = -128;  // reversed views are views, to read and to write
  call.o.view.stride[1] = -8 * 64;
  REQUIRE_STATUS(call.forward(engine), STRATUM_OK);
  CHECK(params<abi::GatedForwardParams>(launch(emulator_launch_count() - 1)).k.token == -128);
}

TEST_CASE("Outputs whose elements lie on one another are refused, whatever the order of their axes") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  // o of [2, 16, 8, 64] by the strides of batch, token and head.
  struct Layout {
    int64_t batch, token, head;
    int32_t overlapping;  // the axis to blame, or -1
  };
  const Layout layouts[] = {
      {8192, 512, 64, -1},
      {8192, 64, 1024, -1},  // heads before tokens
      {64, 1024, 128, -1},   // batches innermost
      {-8192, 512, -64, -1},
      {1 << 20, 1 << 12, 72, -1},
      {8192, 512, 56, 2},
      {8192, 512, 0, 2},
      {8192, 8, 64, 1},
      {8192, -8, 64, 1},
      {8192, 504, 64, 1},
      {8184, 512, 64, 0},
      {72, 1024, 64, 0},
      {0, 512, 64, 0},
      {INT64_MAX - 7, int64_t{1} << 62, 64, 0},
  };
  for (const Layout& layout : layouts) {
    TrainingCall call(2, 16);
    call.o.view.stride[0] = layout.batch;
    call.o.view.stride[1] = layout.token;
    call.o.view.stride[2] = layout.head;
    INFO(layout.batch << ", " << layout.token << ", " << layout.head);
    if (layout.overlapping < 0) {
      REQUIRE_STATUS(call.forward(engine), STRATUM_OK);
      continue;
    }
    check_refused(engine, call, STRATUM_STRIDE_ERROR, "o");
    CHECK(call.forward(engine) == STRATUM_STRIDE_ERROR);
    CHECK_THAT(message(), Catch::Contains("lie on one another") &&
                              Catch::Contains(" on axis " + std::to_string(layout.overlapping) + " "));
  }
  TrainingCall call(2, 16);
  call.dv.view.stride[1] = 8;
  CHECK(call.backward(engine) == STRATUM_STRIDE_ERROR);
  CHECK(message() ==
        "dv: is written, expected elements that do not lie on one another, got stride 8 on axis 1 where the axes "
        "within it span 64 elements");
}

TEST_CASE("Shapes, types and devices are checked, each by its own error") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  TrainingCall call(2, 16);
  call.k.view.shape[1] = 15;
  check_refused(engine, call, STRATUM_SHAPE_ERROR, "k");
  call = TrainingCall(2, 16);
  call.q.view.rank = 3;
  check_refused(engine, call, STRATUM_SHAPE_ERROR, "q");
  call = TrainingCall(2, 16);
  call.o.view.shape[2] = 2;
  check_refused(engine, call, STRATUM_SHAPE_ERROR, "o");
  call = TrainingCall(2, 16);
  call.v.view.dtype = STRATUM_FLOAT16;
  check_refused(engine, call, STRATUM_DTYPE_ERROR, "v");
  call = TrainingCall(2, 16);
  call.v.view.dtype = STRATUM_OTHER;
  call.v.view.dtype_name = "float32";
  CHECK(call.forward(engine) == STRATUM_DTYPE_ERROR);
  CHECK(message() == "v: expected bfloat16 (or uint16, its raw bits), got float32");
  call = TrainingCall(2, 16);
  call.qg.view.device = 1;
  check_refused(engine, call, STRATUM_DEVICE_ERROR, "qg");
  CHECK(stratum_forward(engine, nullptr, call.k, call.v, call.qg, call.kg, call.o, 16, 0) == STRATUM_SHAPE_ERROR);
  call = TrainingCall(2, 16);
  CHECK(stratum_forward(engine, call.q, call.k, call.v, call.qg, call.kg, call.o, 24, 0) == STRATUM_STRIDE_ERROR);
  CHECK(std::string(stratum_error_argument()) == "stats");
}

TEST_CASE("More than 65,535 batches times heads are one launch") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  const TrainingCall call(8192 + 1, 1);
  REQUIRE_STATUS(call.forward(engine), STRATUM_OK);
  REQUIRE_STATUS(call.backward(engine), STRATUM_OK);
  CHECK(launch(0).grid[0] == (8192 + 1) * 8);
  CHECK(launch(2).grid[0] == (8192 + 1) * 2);
}

TEST_CASE("Grids beyond one launch are refused") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  TrainingCall call(1, 1);
  // No memory of that size is needed: sizes are looked at first.
  for (Array* array : {&call.q, &call.k, &call.v, &call.qg, &call.kg, &call.o}) {
    array->view.shape[0] = 1 << 20;
    array->view.shape[1] = 1 << 16;
    array->view.stride[0] = array->view.stride[1] << 16;
  }
  CHECK(call.forward(engine) == STRATUM_SHAPE_ERROR);
  CHECK(emulator_launch_count() == 0);
}

TEST_CASE("Training inside a capture queues launches and nothing else") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  const TrainingCall call(1, 64);
  REQUIRE(emulator_stream_capture(stream, 1) == 1);
  emulator_reset();
  REQUIRE_STATUS(call.forward(engine, stream), STRATUM_OK);
  REQUIRE_STATUS(call.backward(engine, stream), STRATUM_OK);
  for (int64_t i = 0; emulator_called(i) != nullptr; ++i) {
    INFO(emulator_called(i));
    const std::string name = emulator_called(i);
    CHECK((name == "cuLaunchKernel" || name.starts_with("cuCtx")));
  }
  CHECK(launch(2).captured == 1);
  CHECK(emulator_stream_capture(stream, 0) == 1);
  emulator_stream_destroy(stream);
}

TEST_CASE("Variants of a training kernel go by length and batch") {
  const LeakCheck leaks;
  const TemporaryFolder folder;
  auto rows = stratum_rows("sm_90", "bfloat16", 64, 32);
  const auto forward = std::ranges::find(rows, "forward", [](const auto& row) { return row.key.operation; });
  stratum::ManifestKernel longer = *forward;
  forward->variant = 1;
  longer.name += "_long";
  longer.tile["tile_m"] = 128;
  longer.when.seq_len = stratum::Range{.min = 1000, .max = {}};
  rows.push_back(longer);
  write_pack(folder.path(), rows);
  const TestEngine engine(training_config(), folder.path());
  emulator_reset();
  REQUIRE_STATUS(TrainingCall(1, 999).forward(engine), STRATUM_OK);
  REQUIRE_STATUS(TrainingCall(1, 1000).forward(engine), STRATUM_OK);
  CHECK(launch(0).grid[0] == 16 * 8);
  CHECK(launch(1).grid[0] == 8 * 8);
}

TEST_CASE("Calls of modes that the engine was not built for") {
  const LeakCheck leaks;
  const TestEngine engine(training_config());
  int64_t id = 0;
  CHECK(stratum_create(engine, &id) == STRATUM_CONFIG_ERROR);
  CHECK(std::string(stratum_error_argument()) == "modes");
  json config = standard_config();
  config["modes"] = {"decode"};
  const TestEngine decoder(config);
  CHECK(TrainingCall(1, 1).forward(decoder) == STRATUM_CONFIG_ERROR);
  CHECK(ServingCall(1).prefill(decoder, {decoder.create()}, {1}) == STRATUM_CONFIG_ERROR);
}
