// Writes what the fuzzers begin with: fuzz_seeds REPOSITORY FOLDER. PTX, a manifest and compressed files of the smallest
// kernel of each operation, and the PTX in the emulator's tests.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>

#include "common/file.h"
#include "common/manifest.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  stratum::replace_file(path, bytes);
}

// The raw strings of a C++ source.
void write_snippets(const fs::path& source, const fs::path& out) {
  const std::string text = stratum::read_file(source);
  int count = 0;
  for (size_t at = text.find("R\"("); at != text.npos; at = text.find("R\"(", at)) {
    const size_t end = text.find(")\"", at);
    const std::string name = source.stem().string() + "-" + std::to_string(count++);
    for (const char* harness : {"ptx", "run"}) write(out / harness / name, text.substr(at + 3, end - at - 3));
    at = end;
  }
}

void write_seeds(const fs::path& repository, const fs::path& out) {
  const fs::path pack = repository / "cubins";
  const stratum::Manifest manifest = stratum::read_manifest(pack);
  std::map<std::string, stratum::ManifestKernel> smallest;
  for (const stratum::ManifestKernel& kernel : manifest.kernels) {
    const auto [known, is_new] = smallest.try_emplace(kernel.key.operation, kernel);
    if (!is_new && kernel.ptx.bytes < known->second.ptx.bytes) known->second = kernel;
  }
  for (auto& [operation, kernel] : smallest) {
    write(out / "ptx" / operation, stratum::read_pack_file(pack, kernel.ptx));
    const std::string size{static_cast<char>(kernel.ptx.bytes & 255), static_cast<char>(kernel.ptx.bytes >> 8 & 255)};
    write(out / "zstd" / operation, size + stratum::read_file(pack / kernel.ptx.file));
    kernel.variant = 0;
    write(out / "manifest" / operation,
          stratum::serialise_manifest({.toolchain = manifest.toolchain, .kernels = {kernel}}));
  }
  for (const auto& file : fs::directory_iterator(repository / "tests" / "emulator")) {
    if (file.path().extension() == ".cpp") write_snippets(file.path(), out);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fuzz_seeds REPOSITORY FOLDER\n");
    return 2;
  }
  try {
    write_seeds(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
