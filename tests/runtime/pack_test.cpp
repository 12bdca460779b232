// Damaged packs are found by their hashes, before the driver is asked for anything that loads or allocates.
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "common/file.h"
#include "common/zstd_codec.h"
#include "support.h"

namespace {

using namespace support;

// A pack of its own for each test, which builds; then some damage is done to it.
class DamagedPack {
 public:
  DamagedPack() : rows_(stratum_rows("sm_90", "bfloat16", 64, 32)) {
    auto others = stratum_rows("sm_80", "bfloat16", 64, 32);
    rows_.insert(rows_.end(), others.begin(), others.end());
    write_pack(folder_.path(), rows_);
    manifest_ = stratum::read_manifest(folder_.path());
    TestEngine(standard_config(), folder_.path());
  }

  const std::filesystem::path& path() const { return folder_.path(); }

  const stratum::ManifestKernel& row(const std::string& name) const { return *manifest_.find(name); }
  const std::vector<stratum::ManifestKernel>& rows() const { return manifest_.kernels; }

  // The compressed cubin of a kernel.
  std::filesystem::path cubin(const std::string& name) const { return folder_.path() / row(name).cubin.file; }

  // Builds, expects PACK_ERROR whose message has `text`, and no driver call beyond asking which device it is.
  void expect_refused(const std::string& text) const {
    const LeakCheck leaks;
    stratum_engine engine = 0;
    const stratum_status status = stratum_build(standard_config().dump().c_str(), path().c_str(), &engine);
    INFO(message());
    CHECK(status == STRATUM_PACK_ERROR);
    CHECK_THAT(message(), Catch::Contains(text));
    for (int64_t i = 0; emulator_called(i) != nullptr; ++i) {
      const std::string name = emulator_called(i);
      INFO(name);
      CHECK((name == "cuInit" || name.starts_with("cuDeviceGet")));
    }
  }

 private:
  TemporaryFolder folder_;
  std::vector<stratum::ManifestKernel> rows_;
  stratum::Manifest manifest_;
};

const std::string kForward = "gated_fwd_sm90_bf16_d64_r32_g0_m64";

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace

TEST_CASE("A missing entry") {
  const DamagedPack pack;
  std::filesystem::remove(pack.cubin(kForward));
  pack.expect_refused(pack.cubin(kForward).string());
}

TEST_CASE("A truncated entry") {
  const DamagedPack pack;
  const std::string whole = stratum::read_file(pack.cubin(kForward));
  for (const size_t bytes : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    write(pack.cubin(kForward), whole.substr(0, bytes));
    pack.expect_refused(pack.cubin(kForward).string());
  }
}

TEST_CASE("An entry with any one bit flipped") {
  const DamagedPack pack;
  const std::string whole = stratum::read_file(pack.cubin(kForward));
  const stratum::PackFile& entry = pack.row(kForward).cubin;
  const std::string image = stratum::read_pack_file(pack.path(), entry);
  int refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write(pack.cubin(kForward), damaged);
    stratum_engine engine = 0;
    const auto status = stratum_build(standard_config().dump().c_str(), pack.path().c_str(), &engine);
    INFO("bit " << bit << ": " << message());
    if (status == STRATUM_OK) {
      // A flip in what zstd ignores is no damage: what is loaded is what was packed.
      stratum_close(engine);
      CHECK(stratum::read_pack_file(pack.path(), entry) == image);
    } else {
      CHECK(status == STRATUM_PACK_ERROR);
      ++refused;
    }
  }
  CHECK(refused > static_cast<int>(whole.size()) * 7);
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 4);
  write(pack.cubin(kForward), damaged);
  pack.expect_refused(pack.cubin(kForward).string());
}

TEST_CASE("An entry with more after its end") {
  const DamagedPack pack;
  write(pack.cubin(kForward), stratum::read_file(pack.cubin(kForward)) + "more");
  pack.expect_refused(pack.cubin(kForward).string());
}

TEST_CASE("Another arch's cubin under the right name") {
  const DamagedPack pack;
  write(pack.cubin(kForward), stratum::read_file(pack.cubin("gated_fwd_sm80_bf16_d64_r32_g0_m64")));
  pack.expect_refused("the manifest says sha256");
}

TEST_CASE("Other valid bytes of the same length") {
  const DamagedPack pack;
  const std::string compressed = stratum::read_file(pack.cubin(kForward));
  std::string image = stratum::zstd_decompress(compressed, pack.row(kForward).cubin.bytes, "the cubin");
  image[0] = 'M';
  write(pack.cubin(kForward), stratum::zstd_compress(image));
  pack.expect_refused("altered");
}

TEST_CASE("An altered, truncated, missing or foreign manifest: no driver call at all") {
  const DamagedPack pack;
  const std::filesystem::path path = pack.path() / stratum::kManifestFile;
  const std::string whole = stratum::read_file(path);
  const auto expect = [&](const std::string& text) {
    pack.expect_refused(text);
    CHECK(emulator_calls(nullptr) == 0);
  };
  std::string altered = whole;
  altered.replace(altered.find("\"block\": 128"), 12, "\"block\": 256");
  write(path, altered);
  expect("the manifest was altered");
  for (const size_t bytes : {size_t{0}, size_t{1}, whole.size() / 2}) {
    write(path, whole.substr(0, bytes));
    expect("manifest.json");
  }
  std::filesystem::remove(path);
  expect("manifest.json");
  std::string schema = whole;
  schema.replace(schema.find("\"schema\": 1"), 11, "\"schema\": 2");
  write(path, schema);
  expect("schema");
}

TEST_CASE("A pack directory that is not there") {
  stratum_engine engine = 0;
  CHECK(stratum_build(standard_config().dump().c_str(), "/nowhere/at/all", &engine) == STRATUM_PACK_ERROR);
  CHECK_THAT(message(), Catch::Contains("/nowhere/at/all"));
}

TEST_CASE("Kernels with other parameters than this library's") {
  const DamagedPack pack;
  auto rows = pack.rows();
  for (auto& row : rows) {
    if (row.name == kForward) row.params.bytes = 232;
  }
  write_manifest(pack.path(), rows);
  pack.expect_refused("kernel " + kForward +
                      " takes GatedForwardParams of 232 bytes, this library passes "
                      "GatedForwardParams of 224");
}

TEST_CASE("A tile without the field that the grid depends on") {
  const DamagedPack pack;
  auto rows = pack.rows();
  for (auto& row : rows) row.tile.erase("tile_m");
  write_manifest(pack.path(), rows);
  pack.expect_refused("kernel " + kForward + ": its tile in the manifest has no tile_m from 1 to 2147483647");
}

TEST_CASE("Engines are built while the pack is replaced again and again") {
  const LeakCheck leaks;
  const TemporaryFolder folder;
  std::vector<stratum::ManifestKernel> packs[2];
  for (const int i : {0, 1}) {
    packs[i] = stratum_rows("sm_90", "bfloat16", 64, 32);
    for (auto& row : packs[i]) row.name += i == 0 ? "_even" : "_odd";
  }
  write_pack(folder.path(), packs[0]);
  std::atomic<bool> stop = false;
  std::thread publisher([&] {
    for (int turn = 1; !stop; ++turn) {
      write_pack(folder.path(), packs[turn % 2]);
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        const std::string name = entry.path().filename();
        if (name.find(turn % 2 == 0 ? "_odd" : "_even") != name.npos) std::filesystem::remove(entry.path());
      }
    }
  });
  for (int i = 0; i < 100; ++i) {
    stratum_engine engine = 0;
    const stratum_status status = stratum_build(standard_config().dump().c_str(), folder.path().c_str(), &engine);
    INFO(message());
    CHECK(status == STRATUM_OK);
    if (status == STRATUM_OK) stratum_close(engine);
  }
  stop = true;
  publisher.join();
}

TEST_CASE("A whole pack that the driver refuses names the kernel") {
  const LeakCheck leaks;
  const TemporaryFolder folder;
  auto rows = stratum_rows("sm_90", "bfloat16", 64, 32);
  write_pack(folder.path(), rows);
  // Its bytes are in no other pack, so it is not loaded yet.
  for (auto& row : rows) row.name += "_fresh";
  write_pack(folder.path(), rows);
  emulator_fail("cuModuleLoadData", 1, 209);
  stratum_engine engine = 0;
  CHECK(stratum_build(standard_config().dump().c_str(), folder.path().c_str(), &engine) == STRATUM_DRIVER_ERROR);
  CHECK(message() ==
        "cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image for this device), kernel "
        "gated_fwd_sm90_bf16_d64_r32_g0_m64_fresh");
}

TEST_CASE("Only the kernels of the asked modes are read; each is loaded once a process") {
  const LeakCheck leaks;
  const TemporaryFolder folder;
  auto rows = stratum_rows("sm_90", "bfloat16", 64, 32);
  for (auto& row : rows) row.name += "_once";
  write_pack(folder.path(), rows);
  json config = standard_config();
  config["modes"] = {"training"};
  emulator_reset();
  { const TestEngine first(config, folder.path()), second(config, folder.path()); }
  CHECK(emulator_calls("cuModuleLoadData") == 3);
  CHECK(emulator_calls("cuFuncLoad") == 3);
  const TestEngine all(standard_config(), folder.path());
  CHECK(emulator_calls("cuModuleLoadData") == 8);
  CHECK(emulator_calls("cuModuleUnload") == 0);
}
