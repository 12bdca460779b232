// What the tests of the runtime share: a pack of made-up kernels, engines on the emulator, arrays, checks for leaks.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "abi/gated.h"
#include "common/manifest.h"
#include "emulator.h"
#include "stratum.h"

namespace support {

using nlohmann::json;

// The devices of the emulator in these tests (main.cpp).
inline constexpr int kDeviceSm90 = 0, kDeviceSm80 = 1, kDeviceUnserved = 2;

inline constexpr int32_t kTileM = 64;         // of every kernel of the pack
inline constexpr int32_t kAppendTokens = 16;  // tokens a block of append places
inline constexpr int32_t kBlock = 128;
// Of the kernels that take tensor maps.
inline constexpr int32_t kMapTileM = 128, kMapTileN = 96, kMapBlocksPerSm = 2, kQueryTile = 64;

// A new folder, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Rows of a pack for one (arch, dtype, head_dim, gate_dim): every operation, group 0.
std::vector<stratum::ManifestKernel> stratum_rows(const std::string& arch, const std::string& dtype, int head_dim,
                                                  int gate_dim);
stratum::ManifestKernel row(const std::string& operation, const std::string& arch, const std::string& dtype,
                            int head_dim, int gate_dim, int group = 0);

// Rows of the training kernels that take tensor maps, sm_90a, for one (dtype, head_dim, gate_dim).
std::vector<stratum::ManifestKernel> tensor_map_rows(const std::string& dtype, int head_dim, int gate_dim);

// Rows of the fused backward, which is optional, for lengths of `from` and more.
std::vector<stratum::ManifestKernel> fused_backward_rows(const std::string& dtype, int head_dim, int gate_dim,
                                                         int64_t from);

// Writes rows with made-up cubins (text with the kernel's name) and the manifest.
void write_pack(const std::filesystem::path& folder, std::vector<stratum::ManifestKernel> rows);
void write_manifest(const std::filesystem::path& folder, std::vector<stratum::ManifestKernel> rows);

// The pack most tests use: sm_80 and sm_90, both dtypes, (64, 32) and (128, 64). Written once a process.
const std::filesystem::path& standard_pack();

// A small configuration on device 0: head_dim 64, gate_dim 32, q_heads 8, kv_heads 2, all modes, 4 sequences of at most
// 1,024 tokens, 2,048 tokens in all.
json standard_config();

// An open engine, closed at the end.
class TestEngine {
 public:
  explicit TestEngine(const json& config = standard_config(), const std::filesystem::path& pack = standard_pack());
  TestEngine(const TestEngine&) = delete;
  TestEngine& operator=(const TestEngine&) = delete;
  ~TestEngine() { stratum_close(handle_); }

  operator stratum_engine() const { return handle_; }

  int64_t create() const;
  int64_t fork(int64_t parent) const;
  int64_t length(int64_t id) const;
  stratum_memory memory() const;

 private:
  stratum_engine handle_ = 0;
};

// A contiguous 16-bit array in host memory.
class Array {
 public:
  explicit Array(std::vector<int64_t> shape, int32_t dtype = STRATUM_RAW16);

  operator const stratum_array*() const { return &view; }

  stratum_array view{};

 private:
  std::vector<uint8_t> storage_;
};

// The arrays of a serving call with `tokens` rows for standard_config's heads and dims.
struct ServingCall {
  explicit ServingCall(int64_t tokens);

  stratum_status prefill(stratum_engine engine, std::vector<int64_t> ids, std::vector<int64_t> lengths,
                         uint64_t stream = 0) const;
  stratum_status decode(stratum_engine engine, std::vector<int64_t> ids, std::vector<int64_t> lengths,
                        uint64_t stream = 0) const;

  Array q, k, v, qg, kg, o;
};

// The arrays of a training step for standard_config's heads and dims.
struct TrainingCall {
  TrainingCall(int64_t batch, int64_t seq_len);

  stratum_status forward(stratum_engine engine, uint64_t stream = 0) const;
  stratum_status backward(stratum_engine engine, uint64_t stream = 0) const;

  Array q, k, v, qg, kg, o, dout, dq, dk, dv, dqg, dkg;
  std::vector<float> workspace;

 private:
  uint64_t aligned(int64_t offset) const;
};

// Prefills `tokens` new tokens of one sequence on an engine of standard_config; must succeed.
void prefill_tokens(stratum_engine engine, int64_t id, int64_t tokens, uint64_t stream = 0);

// The i-th recorded launch; its parameters as P.
emulator_launch launch(int64_t index);
template <typename P>
P params(const emulator_launch& launch) {
  REQUIRE(launch.params_bytes == sizeof(P));
  P value;
  std::memcpy(&value, launch.params, sizeof(P));
  return value;
}

// The operation's short word in a made-up kernel's name: "fwd".
std::string mnemonic_of(const emulator_launch& launch);
std::vector<std::string> launched();

// Objects alive in the emulator; modules stay loaded by design.
struct Live {
  int64_t device, pinned, events;

  static Live now();
  bool operator==(const Live&) const = default;
};

// Notes what is alive, forgets records; at the end nothing more may be alive and no fault may have been noted.
class LeakCheck {
 public:
  LeakCheck();
  ~LeakCheck() noexcept(false);

 private:
  Live before_;
};

std::string message();

}  // namespace support

// Requires a status, with the library's message if it is another.
#define REQUIRE_STATUS(call, expected)            \
  do {                                            \
    const stratum_status status_of_call = (call); \
    INFO(stratum_error_message());                \
    REQUIRE(status_of_call == (expected));        \
  } while (false)
