// Publishing a pack: whole at every moment, whatever happens to the one who writes it.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "common/file.h"
#include "common/input_error.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"
#include "generator/pack/build_cache.h"
#include "generator/pack/pack_folder.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

namespace fs = std::filesystem;

struct FakePack {
  Manifest manifest;
  std::map<std::string, std::string> files;
};

// A pack of `count` kernels whose files are random bytes that depend on `seed`.
FakePack make_pack(int count, unsigned seed, size_t bytes = 2000) {
  FakePack pack{.manifest = {.toolchain = {"1", "1"}, .kernels = {}}, .files = {}};
  for (int i = 0; i < count; ++i) {
    CompiledKernel kernel;
    unsigned state = seed * 1000 + static_cast<unsigned>(i);
    for (size_t b = 0; b < bytes; ++b) {
      state = state * 1664525 + 1013904223;
      kernel.cubin += static_cast<char>(state >> 24);
    }
    kernel.ptx = kernel.cubin + "ptx";
    ManifestKernel row;
    row.key = {"fake", "scale", "sm_80", "bfloat16", 16 * (i + 1), 0, 0, {}};
    row.name = kernel_name(row.key, "scale", "");
    row.plan = "plans/p.json";
    row.build_key = sha256_hex(kernel.cubin);
    row.params = {"P", 8};
    row.block = 32;
    row.registers = 8;
    const BuiltKernel built = pack_kernel(row.name, kernel);
    row.cubin = built.cubin;
    row.ptx = built.ptx;
    pack.files[row.cubin.file] = built.cubin_frame;
    pack.files[row.ptx.file] = built.ptx_frame;
    pack.manifest.kernels.push_back(row);
  }
  std::ranges::sort(pack.manifest.kernels, {}, &ManifestKernel::name);
  return pack;
}

void publish(const fs::path& folder, const FakePack& pack) {
  PackFolder(folder, [] {}).publish(pack.manifest, pack.files);
}

// The manifest, every file of it read and checked.
Manifest read_whole(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  for (const ManifestKernel& kernel : manifest.kernels) {
    read_pack_file(folder, kernel.cubin);
    read_pack_file(folder, kernel.ptx);
  }
  return manifest;
}

size_t count_files(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("pack: published, replaced, cleaned up, other people's files left alone") {
  const TemporaryFolder folder;
  const FakePack first = make_pack(3, 1), second = make_pack(2, 2);
  replace_file(folder.path() / "README.md", "mine");
  publish(folder.path(), first);
  CHECK(read_whole(folder.path()) == first.manifest);
  CHECK(count_files(folder.path()) == 1 + 1 + 6);
  replace_file(folder.path() / (std::string(kTemporaryPrefix) + "12-0"), "left by a killed build");
  publish(folder.path(), second);
  CHECK(read_whole(folder.path()) == second.manifest);
  CHECK(count_files(folder.path()) == 1 + 1 + 4);
  CHECK(read_file(folder.path() / "README.md") == "mine");
}

TEST_CASE("pack: what is right is not written again, what is damaged is") {
  const TemporaryFolder folder;
  const FakePack pack = make_pack(2, 1);
  PackFolder open(folder.path(), [] {});
  CHECK(open.publish(pack.manifest, pack.files));
  CHECK_FALSE(open.publish(pack.manifest, pack.files));
  const PackFile& file = pack.manifest.kernels[0].cubin;
  CHECK(open.holds(file));
  replace_file(folder.path() / file.file, "damaged");
  CHECK_FALSE(open.holds(file));
  CHECK(open.publish(pack.manifest, pack.files));
  CHECK(open.holds(file));
}

TEST_CASE("pack: a manifest that readers would refuse is not published") {
  const TemporaryFolder folder;
  const FakePack good = make_pack(2, 1);
  publish(folder.path(), good);
  FakePack bad = make_pack(2, 2);
  bad.manifest.kernels[1].name = bad.manifest.kernels[0].name;
  CHECK_THROWS_AS(publish(folder.path(), bad), InputError);
  CHECK(read_whole(folder.path()) == good.manifest);
}

TEST_CASE("pack: a full disk leaves the old one whole") {
  const TemporaryFolder folder;
  const FakePack old_pack = make_pack(2, 1), new_pack = make_pack(2, 2, 100000);
  publish(folder.path(), old_pack);
  const pid_t child = ::fork();
  if (child == 0) {
    // A limit on the size of files makes write() fail half way, as a full disk does.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50000, 50000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      publish(folder.path(), new_pack);
    } catch (const InputError&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(read_whole(folder.path()) == old_pack.manifest);
  CHECK(count_files(folder.path()) == 1 + 4);
}

TEST_CASE("pack: killed at any moment, it is whole") {
  const TemporaryFolder folder;
  const FakePack packs[] = {make_pack(6, 1), make_pack(6, 2)};
  publish(folder.path(), packs[0]);
  int seen[2] = {0, 0};
  for (int round = 0; round < 25; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 1;; ++i) publish(folder.path(), packs[i % 2]);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const Manifest manifest = read_whole(folder.path());
    const bool is_first = manifest == packs[0].manifest;
    REQUIRE((is_first || manifest == packs[1].manifest));
    ++seen[is_first ? 0 : 1];
  }
  publish(folder.path(), packs[1]);
  CHECK(count_files(folder.path()) == 1 + 12);
  INFO("the two packs were found " << seen[0] << " and " << seen[1] << " times");
}

TEST_CASE("pack: the lock keeps a second build waiting, and tells it so") {
  const TemporaryFolder folder;
  auto first = std::make_unique<PackFolder>(folder.path(), [] {});
  std::atomic<bool> waited = false, entered = false;
  std::jthread second([&] {
    const PackFolder other(folder.path(), [&] { waited = true; });
    entered = true;
  });
  while (!waited) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(entered);
  first.reset();
  second.join();
  CHECK(entered);
}

TEST_CASE("cache: an entry is found whole, or not at all") {
  const TemporaryFolder folder;
  const BuildCache cache(folder.path() / "cache");
  const CompiledKernel kernel{.ptx = "ptx", .cubin = "cubin", .facts = {8, 1, 32, 0, 0, 16}, .warnings = ""};
  const std::string key(64, 'a');
  CHECK_FALSE(cache.find("k", key));
  cache.store(key, pack_kernel("k", kernel));
  const std::optional<BuiltKernel> found = cache.find("k", key);
  REQUIRE(found);
  CHECK(found->facts == kernel.facts);
  CHECK(found->cubin.file == "k-" + sha256_hex("cubin").substr(0, 8) + ".cubin.zst");
  CHECK(zstd_decompress(found->cubin_frame, 5, "cubin") == "cubin");
  CHECK_FALSE(cache.find("k", std::string(64, 'b')));
  replace_file(folder.path() / "cache" / (key + ".ptx.zst"), zstd_compress("ptx altered"));
  CHECK_FALSE(cache.find("k", key));
}

}  // namespace
}  // namespace stratum::gen
