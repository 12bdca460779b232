// Training by kernels that take tensor maps: their maps, grids and parameters, and which arrays they leave to the
// portable kernels.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "abi/gated_sm90a.h"
#include "support.h"

namespace {

using namespace support;
namespace abi = stratum::abi;
using Extents = std::array<uint64_t, 4>;

constexpr int64_t kMultiprocessors = 132;  // of the emulator's device of compute capability 9.0

// A map, innermost axis first, read from the emulator's layout (tools/emulator/machine/tensor_map.h). A map that breaks
// the driver's rules is a fault, which LeakCheck finds.
struct Map {
  explicit Map(const abi::TensorMap& map) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&map);
    is_map = std::memcmp(bytes, "TMAP", 4) == 0;
    type = bytes[5];
    swizzle = bytes[8];
    fill = bytes[10];
    std::memcpy(&address, bytes + 16, 8);
    for (size_t axis = 0; axis < 4; ++axis) {
      uint32_t extent = 0;
      uint16_t box_extent = 0;
      std::memcpy(&extent, bytes + 56 + 4 * axis, 4);
      std::memcpy(&box_extent, bytes + 76 + 2 * axis, 2);
      extents[axis] = uint64_t{extent} + 1;
      box[axis] = uint64_t{box_extent} + 1;
      if (axis > 0) std::memcpy(&strides[axis], bytes + 24 + 8 * (axis - 1), 8);
    }
  }

  bool is_map = false;
  int type = 0, swizzle = 0, fill = 0;
  uint64_t address = 0;
  Extents extents{}, strides{}, box{};  // strides in bytes
};

// The map is of the array, with boxes of `rows` rows.
void check_map(const abi::TensorMap& map, const Array& array, uint64_t rows) {
  const Map found(map);
  REQUIRE(found.is_map);
  const auto extent = [&](int axis) { return static_cast<uint64_t>(array.view.shape[axis]); };
  const auto stride = [&](int axis) { return static_cast<uint64_t>(array.view.stride[axis]) * 2; };
  CHECK(found.address == array.view.data);
  CHECK(found.extents == Extents{extent(3), extent(2), extent(1), extent(0)});
  CHECK(found.strides == Extents{0, stride(2), stride(1), stride(0)});
  CHECK(found.box == Extents{std::min<uint64_t>(extent(3), 64), 1, rows, 1});
  CHECK(found.type == 1);  // 16-bit integers
  CHECK(found.swizzle == (extent(3) == 32 ? 2 : 3));
  CHECK(found.fill == 0);
}

// A pack with kernels of both kinds, and engines of it.
class Pack {
 public:
  explicit Pack(std::vector<stratum::ManifestKernel> with_maps = tensor_map_rows("bfloat16", 64, 32)) {
    auto rows = stratum_rows("sm_90", "bfloat16", 64, 32);
    std::ranges::move(with_maps, std::back_inserter(rows));
    std::ranges::move(stratum_rows("sm_80", "bfloat16", 64, 32), std::back_inserter(rows));
    write_pack(folder_.path(), std::move(rows));
  }

  TestEngine engine(int device = kDeviceSm90, std::optional<int64_t> memory_limit_bytes = {}) const {
    json config = standard_config();
    if (memory_limit_bytes) config["memory_limit_bytes"] = *memory_limit_bytes;
    config["modes"] = {"training"};
    config["device"] = device;
    return TestEngine(config, folder_.path());
  }

  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

std::vector<std::string> archs_launched() {
  std::vector<std::string> archs;
  for (int64_t i = 0; i < emulator_launch_count(); ++i) {
    const std::string name = launch(i).kernel;
    archs.push_back(name.substr(name.find("_sm") + 1, name.find("_bf16") - name.find("_sm") - 1));
  }
  return archs;
}

// The archs of the three kernels of a step.
std::vector<std::string> archs_of(const TrainingCall& call, stratum_engine engine) {
  emulator_reset();
  REQUIRE_STATUS(call.forward(engine), STRATUM_OK);
  REQUIRE_STATUS(call.backward(engine), STRATUM_OK);
  REQUIRE(launched() == std::vector<std::string>{"fwd", "bwd_dq", "bwd_dkv"});
  return archs_launched();
}

using Archs = std::vector<std::string>;

}  // namespace

TEST_CASE("Tensor maps: forward's parameters") {
  const LeakCheck leaks;
  const Pack pack;
  const TestEngine engine = pack.engine();
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  const TrainingCall call(3, 130);
  emulator_reset();
  REQUIRE_STATUS(call.forward(engine, stream), STRATUM_OK);
  REQUIRE(archs_launched() == Archs{"sm90a"});
  CHECK(launch(0).stream == stream);
  CHECK(launch(0).block[0] == 384);
  CHECK(launch(0).grid[0] == 3 * 2 * 8);  // ceil(130 / 128) tiles, batch, heads: fewer than the device holds
  const auto p = params<abi::GatedForwardSm90aParams>(launch(0));
  check_map(p.q, call.q, 64);
  check_map(p.k, call.k, kMapTileN);
  check_map(p.v, call.v, kMapTileN);
  check_map(p.qg, call.qg, 64);
  check_map(p.kg, call.kg, kMapTileN);
  check_map(p.o, call.o, 64);
  CHECK((p.batch == 3 && p.seq_len == 130 && p.q_heads == 8 && p.kv_heads == 2));
  CHECK(p.softmax_scale_log2 == static_cast<float>(std::log2(std::exp(1.0)) / 8));
  CHECK(p.gate_half_scale == static_cast<float>(0.5 / std::sqrt(32.0)));
  CHECK(std::ranges::all_of(p.padding, [](uint64_t word) { return word == 0; }));
  emulator_stream_destroy(stream);
}

TEST_CASE("Tensor maps: backward's parameters, each kernel's boxes and outputs") {
  const LeakCheck leaks;
  const Pack pack;
  const TestEngine engine = pack.engine();
  const TrainingCall call(2, 65);
  emulator_reset();
  REQUIRE_STATUS(call.forward(engine), STRATUM_OK);
  REQUIRE_STATUS(call.backward(engine), STRATUM_OK);
  const auto forward = params<abi::GatedForwardSm90aParams>(launch(0));
  const auto dq = params<abi::GatedBackwardSm90aParams>(launch(1));
  const auto dkv = params<abi::GatedBackwardSm90aParams>(launch(2));
  const auto check_inputs = [&](const abi::GatedBackwardSm90aParams& p, uint64_t query_rows, uint64_t key_rows) {
    check_map(p.q, call.q, query_rows);
    check_map(p.qg, call.qg, query_rows);
    check_map(p.dout, call.dout, query_rows);
    check_map(p.k, call.k, key_rows);
    check_map(p.v, call.v, key_rows);
    check_map(p.kg, call.kg, key_rows);
    CHECK(reinterpret_cast<uint64_t>(p.o.data) == call.o.view.data);
    CHECK((p.o.batch == 65 * 512 && p.o.token == 512 && p.o.head == 64));
    CHECK(reinterpret_cast<uint64_t>(p.dout_rows.data) == call.dout.view.data);
    CHECK(p.stats == forward.stats);
    CHECK(p.delta == dq.delta);
    CHECK((p.batch == 2 && p.seq_len == 65 && p.q_heads == 8 && p.kv_heads == 2));
    CHECK((p.softmax_scale == 0.125f && p.softmax_scale_log2 == forward.softmax_scale_log2));
    CHECK((p.gate_scale == static_cast<float>(1 / std::sqrt(32.0)) && p.gate_half_scale == forward.gate_half_scale));
    CHECK((p.query_tiles == nullptr && p.padding[0] == 0));
  };
  check_inputs(dq, 64, kMapTileN);
  check_map(dq.dq, call.dq, 64);
  check_map(dq.dqg, call.dqg, 64);
  check_inputs(dkv, kMapTileN, 64);
  check_map(dkv.dk, call.dk, 64);
  check_map(dkv.dv, call.dv, 64);
  check_map(dkv.dkg, call.dkg, 64);
  CHECK((!Map(dq.dk).is_map && !Map(dq.dv).is_map && !Map(dq.dkg).is_map));
  CHECK((!Map(dkv.dq).is_map && !Map(dkv.dqg).is_map));
  CHECK(dq.delta != nullptr);
}

TEST_CASE("Tensor maps: a persistent grid has what the device holds, in whole clusters") {
  const LeakCheck leaks;
  auto rows = tensor_map_rows("bfloat16", 64, 32);
  rows[1].tile.erase("blocks_per_sm");  // one
  rows[1].cluster = 2;
  rows[2].cluster = 16;
  const Pack pack(rows);
  const TestEngine engine = pack.engine();
  emulator_reset();
  const auto grids = [&](int64_t batch, int64_t seq_len) {
    const TrainingCall call(batch, seq_len);
    archs_of(call, engine);
    return std::array{int64_t{launch(0).grid[0]}, int64_t{launch(1).grid[0]}, int64_t{launch(2).grid[0]}};
  };
  // Tiles: batch, heads (8, and 2 of keys), ceil(seq_len / 128).
  CHECK(grids(1, 128) == std::array<int64_t, 3>{8, 16, 2 * 16});
  CHECK(grids(3, 129) == std::array<int64_t, 3>{48, 96, 12 * 16});
  CHECK(grids(9, 257) == std::array<int64_t, 3>{216, kMultiprocessors, 16 * 16});
  CHECK(grids(40, 200) == std::array<int64_t, 3>{2 * kMultiprocessors, kMultiprocessors, 16 * 16});
  // More than 65,535 batches times heads are tiles like any others.
  CHECK(grids(8193, 1) == std::array<int64_t, 3>{2 * kMultiprocessors, kMultiprocessors, 16 * 16});
}

TEST_CASE("Tensor maps: an axis of extent 1 may have any stride") {
  const LeakCheck leaks;
  const Pack pack;
  const TestEngine engine = pack.engine();
  for (const int64_t stride : {int64_t{0}, int64_t{3}, int64_t{-8}, INT64_MAX}) {
    TrainingCall call(1, 1);
    for (Array* array : {&call.q, &call.k, &call.v, &call.qg, &call.kg, &call.o, &call.dout, &call.dq, &call.dkg}) {
      array->view.stride[0] = array->view.stride[1] = stride;
    }
    CHECK(archs_of(call, engine) == Archs{"sm90a", "sm90a", "sm90a"});
    const Map map(params<abi::GatedForwardSm90aParams>(launch(0)).kg);
    CHECK(map.extents == Extents{32, 2, 1, 1});
    CHECK(map.strides == Extents{0, 64, 64, 64});
  }
}

TEST_CASE("Tensor maps: views with strides of their own") {
  const LeakCheck leaks;
  const Pack pack;
  const TestEngine engine = pack.engine();
  TrainingCall call(2, 16);
  // Heads before tokens, and batches that lie far apart: nothing is read, launches are only recorded.
  call.q.view.stride[1] = 64;
  call.q.view.stride[2] = 16 * 64;
  call.k.view.stride[0] = (int64_t{1} << 39) - 8;
  call.dq.view.stride[1] = 8 * 72;
  call.dq.view.stride[2] = 72;
  call.dq.view.stride[0] = 16 * 8 * 72;
  CHECK(archs_of(call, engine) == Archs{"sm90a", "sm90a", "sm90a"});
  check_map(params<abi::GatedForwardSm90aParams>(launch(0)).q, call.q, 64);
  check_map(params<abi::GatedForwardSm90aParams>(launch(0)).k, call.k, kMapTileN);
  check_map(params<abi::GatedBackwardSm90aParams>(launch(1)).dq, call.dq, 64);
}

TEST_CASE("Tensor maps: what no map describes goes to the portable kernel, launch by launch") {
  const LeakCheck leaks;
  const Pack pack;
  const TestEngine engine = pack.engine();
  struct Case {
    Array TrainingCall::*array;
    int axis;
    int64_t stride;
    Archs archs;
  };
  const Archs all_portable = {"sm90", "sm90", "sm90"}, backward_portable = {"sm90a", "sm90", "sm90"};
  const Case cases[] = {
      {&TrainingCall::q, 0, 0, all_portable},                  // expanded
      {&TrainingCall::kg, 1, 0, all_portable},                 // one gate for every token
      {&TrainingCall::v, 2, 0, all_portable},                  // one value for every head
      {&TrainingCall::k, 1, -128, all_portable},               // reversed
      {&TrainingCall::qg, 0, int64_t{1} << 39, all_portable},  // 2^40 bytes
      {&TrainingCall::dout, 0, 0, backward_portable},
      {&TrainingCall::dout, 1, -512, backward_portable},
      {&TrainingCall::o, 1, -512, {"sm90", "sm90a", "sm90a"}},  // backward reads o by its strides
      {&TrainingCall::dq, 1, -512, {"sm90a", "sm90", "sm90a"}},
      {&TrainingCall::dqg, 0, int64_t{1} << 39, {"sm90a", "sm90", "sm90a"}},
      {&TrainingCall::dkg, 2, -32, {"sm90a", "sm90a", "sm90"}},
      {&TrainingCall::dv, 1, -128, {"sm90a", "sm90a", "sm90"}},
  };
  for (const Case& each : cases) {
    TrainingCall call(2, 16);
    (call.*each.array).view.stride[each.axis] = each.stride;
    INFO("axis " << each.axis << ", stride " << each.stride);
    CHECK(archs_of(call, engine) == each.archs);
  }
  // What a portable kernel beside one with maps is given: the same statistics and delta.
  TrainingCall call(2, 16);
  call.dq.view.stride[1] = -512;
  archs_of(call, engine);
  const auto dq = params<abi::GatedBackwardParams>(launch(1));
  const auto dkv = params<abi::GatedBackwardSm90aParams>(launch(2));
  CHECK(dq.dq.token == -512);
  CHECK((dq.stats == dkv.stats && dq.delta == dkv.delta));
}

TEST_CASE("Tensor maps: ranges of lengths pass on to the next kernel, with maps or without") {
  const LeakCheck leaks;
  auto rows = tensor_map_rows("bfloat16", 64, 32);
  stratum::ManifestKernel longer = rows[0];
  longer.name += "_long";
  longer.when.seq_len = stratum::Range{.min = 1000, .max = {}};
  rows[0].variant = 1;
  rows[0].when.batch = stratum::Range{.min = 2, .max = {}};
  rows.push_back(longer);
  const Pack pack(rows);
  const TestEngine engine = pack.engine();
  const auto forward = [&](int64_t batch, int64_t seq_len) {
    emulator_reset();
    REQUIRE_STATUS(TrainingCall(batch, seq_len).forward(engine), STRATUM_OK);
    return std::string(launch(0).kernel);
  };
  CHECK(forward(1, 1000) == longer.name);
  CHECK(forward(2, 999) == rows[0].name);
  CHECK(forward(1, 999) == "gated_fwd_sm90_bf16_d64_r32_g0_m64");
}

TEST_CASE("Tensor maps: other chips, and strata without such kernels, take the portable ones") {
  const LeakCheck leaks;
  const Pack pack;
  const TestEngine older = pack.engine(kDeviceSm80);
  CHECK(archs_of(TrainingCall(2, 16), older) == Archs{"sm80", "sm80", "sm80"});
  auto rows = tensor_map_rows("bfloat16", 64, 32);
  rows.resize(1);
  const Pack forward_alone(rows);
  const TestEngine engine = forward_alone.engine();
  CHECK(archs_of(TrainingCall(2, 16), engine) == Archs{"sm90a", "sm90", "sm90"});
}

TEST_CASE("Tensor maps: both kinds of kernels are loaded by build, and a capture queues launches alone") {
  const LeakCheck leaks;
  auto rows = tensor_map_rows("bfloat16", 64, 32);
  for (auto& row : rows) row.name += "_captured";
  const Pack pack(rows);
  emulator_reset();
  const TestEngine engine = pack.engine();
  CHECK(emulator_calls("cuModuleLoadData") >= 3);
  const uint64_t stream = emulator_stream_create(kDeviceSm90);
  const TrainingCall call(1, 64);
  REQUIRE(emulator_stream_capture(stream, 1) == 1);
  emulator_reset();
  REQUIRE_STATUS(call.forward(engine, stream), STRATUM_OK);
  REQUIRE_STATUS(call.backward(engine, stream), STRATUM_OK);
  for (int64_t i = 0; emulator_called(i) != nullptr; ++i) {
    const std::string name = emulator_called(i);
    INFO(name);
    CHECK((name == "cuLaunchKernel" || name == "cuTensorMapEncodeTiled" || name.starts_with("cuCtx")));
  }
  CHECK(emulator_calls("cuTensorMapEncodeTiled") == 6 + 8 + 9);
  CHECK(launch(2).captured == 1);
  CHECK(emulator_stream_capture(stream, 0) == 1);
  emulator_stream_destroy(stream);
}

TEST_CASE("Tensor maps: the driver's refusal of one is told, and nothing is launched") {
  const LeakCheck leaks;
  const Pack pack;
  const TestEngine engine = pack.engine();
  const TrainingCall call(1, 64);
  emulator_reset();
  emulator_fail("cuTensorMapEncodeTiled", 3, 1);
  CHECK(call.forward(engine) == STRATUM_DRIVER_ERROR);
  CHECK_THAT(message(), Catch::StartsWith("cuTensorMapEncodeTiled failed: CUDA_ERROR_INVALID_VALUE"));
  CHECK(emulator_launch_count() == 0);
  // dkv's maps, so that not even dq is launched.
  emulator_fail("cuTensorMapEncodeTiled", 8 + 5, 1);
  CHECK(call.backward(engine) == STRATUM_DRIVER_ERROR);
  CHECK(emulator_launch_count() == 0);
}

TEST_CASE("Tensor maps: packs whose kernels this library cannot serve") {
  const LeakCheck leaks;
  json config = standard_config();
  config["modes"] = {"training"};
  const auto refused = [&](const std::vector<stratum::ManifestKernel>& rows) {
    const TemporaryFolder folder;
    write_pack(folder.path(), rows);
    stratum_engine engine = 0;
    CHECK(stratum_build(config.dump().c_str(), folder.path().c_str(), &engine) == STRATUM_PACK_ERROR);
    return message();
  };
  const auto with_maps = tensor_map_rows("bfloat16", 64, 32);
  CHECK(refused(with_maps) == "the kernels of forward leave some sizes or strides without one");
  const auto changed = [&](auto change) {
    auto rows = stratum_rows("sm_90", "bfloat16", 64, 32);
    rows.push_back(with_maps[0]);
    change(rows.back());
    return refused(rows);
  };
  const std::string kernel = "kernel " + with_maps[0].name;
  CHECK(changed([](auto& row) { row.tile["tile_n"] = 264; }) ==
        kernel + ": its tile in the manifest has no tile_n from 1 to 256");
  CHECK(changed([](auto& row) { row.tile["blocks_per_sm"] = 0; }) ==
        kernel + ": its tile in the manifest has no blocks_per_sm from 1 to 32767");
  CHECK(changed([](auto& row) { row.params.bytes = 768; }) ==
        kernel +
            " takes GatedForwardSm90aParams of 768 bytes, this library passes GatedForwardSm90aParams of 832: the pack "
            "belongs to another version");
}

namespace {

// Both kinds of backward: fused from 100 tokens on.
Pack with_fused_backward() {
  auto rows = tensor_map_rows("bfloat16", 64, 32);
  std::ranges::move(fused_backward_rows("bfloat16", 64, 32, 100), std::back_inserter(rows));
  return Pack(rows);
}

// Of every 64 queries of a head: dQ and dQg in float32, three statistics a query and 16 bytes.
constexpr int64_t kQueryTileBytes = 64 * (64 + 32 + 3) * 4 + 16;

std::vector<std::string> launched_by_backward(const TrainingCall& call, stratum_engine engine) {
  emulator_reset();
  REQUIRE_STATUS(call.backward(engine), STRATUM_OK);
  return launched();
}

const std::vector<std::string> kFused = {"bwd_delta", "bwd_fused", "bwd_round"}, kTwo = {"bwd_dq", "bwd_dkv"};

int64_t delta_bytes(stratum_engine engine, int64_t batch, int64_t seq_len) {
  int64_t stats = 0, delta = 0;
  REQUIRE_STATUS(stratum_training_bytes(engine, batch, seq_len, &stats, &delta), STRATUM_OK);
  return delta;
}

}  // namespace

TEST_CASE("Fused backward: its parameters, grids and workspace") {
  const LeakCheck leaks;
  const Pack pack = with_fused_backward();
  const TestEngine engine = pack.engine();
  const TrainingCall call(3, 130);
  CHECK(launched_by_backward(call, engine) == kFused);
  CHECK(launch(0).grid[0] == 3 * 8 * 3);  // batch, query heads, ceil(130 / 64) tiles
  CHECK(launch(1).grid[0] == 3 * 2);      // pairs of batch x kv heads, ceil(130 / 128) tiles
  CHECK(launch(2).grid[0] == launch(0).grid[0]);
  CHECK(delta_bytes(engine, 3, 130) == 72 * kQueryTileBytes);
  for (const int64_t which : {0, 1, 2}) {
    const auto p = params<abi::GatedBackwardSm90aParams>(launch(which));
    check_map(p.q, call.q, 64);
    check_map(p.k, call.k, 64);
    check_map(p.dout, call.dout, 64);
    check_map(p.dq, call.dq, 64);
    check_map(p.dqg, call.dqg, 64);
    check_map(p.dk, call.dk, 64);
    check_map(p.dv, call.dv, 64);
    check_map(p.dkg, call.dkg, 64);
    CHECK(p.delta == nullptr);
    CHECK(p.query_tiles == params<abi::GatedBackwardSm90aParams>(launch(0)).query_tiles);
  }
}

TEST_CASE("Fused backward: not for lengths outside its range, nor arrays that no map describes") {
  const LeakCheck leaks;
  const Pack pack = with_fused_backward();
  const TestEngine engine = pack.engine();
  CHECK(launched_by_backward(TrainingCall(2, 99), engine) == kTwo);
  CHECK(delta_bytes(engine, 2, 99) == 2 * 8 * 99 * 4);
  TrainingCall call(2, 100);
  call.dq.view.stride[1] = -512;
  CHECK(launched_by_backward(call, engine) == kTwo);
  CHECK(launched_by_backward(TrainingCall(2, 100), engine) == kFused);
}

TEST_CASE("Fused backward: its workspace takes no more than half of the memory limit") {
  const LeakCheck leaks;
  const Pack pack = with_fused_backward();
  const int64_t bytes = 2 * 8 * 2 * kQueryTileBytes;  // batch, heads, tiles
  const TestEngine enough = pack.engine(kDeviceSm90, 2 * bytes);
  CHECK(launched_by_backward(TrainingCall(2, 128), enough) == kFused);
  CHECK(delta_bytes(enough, 2, 128) == bytes);
  const TestEngine tight = pack.engine(kDeviceSm90, 2 * bytes - 1);
  CHECK(launched_by_backward(TrainingCall(2, 128), tight) == kTwo);
  CHECK(delta_bytes(tight, 2, 128) == 2 * 8 * 128 * 4);
}

TEST_CASE("Fused backward: a pack without one of its kernels does without all") {
  const LeakCheck leaks;
  for (const size_t missing : {0, 1, 2}) {
    auto rows = tensor_map_rows("bfloat16", 64, 32);
    const auto fused = fused_backward_rows("bfloat16", 64, 32, 1);
    for (size_t i = 0; i < fused.size(); ++i) {
      if (i != missing) rows.push_back(fused[i]);
    }
    const Pack pack(rows);
    const TestEngine engine = pack.engine();
    CHECK(launched_by_backward(TrainingCall(2, 16), engine) == kTwo);
  }
}
