// Hands each file of a folder to the harness: read_inputs FOLDER.
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "common/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(argv[1])) {
    std::printf("%s\n", file.path().c_str());
    std::fflush(stdout);  // the last line names the file that ends the program
    const std::string bytes = stratum::read_file(file.path());
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++count;
  }
  if (count == 0) std::fprintf(stderr, "%s has no files\n", argv[1]);
  return count == 0;
}
