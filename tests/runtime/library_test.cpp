// The built library: what it exports, what it needs, the oldest system it runs on, how processes end with it.
#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <regex>
#include <set>
#include <string>

#include "common/file.h"
#include "support.h"

namespace {

using namespace support;
using Names = std::set<std::string>;

// The oldest glibc that libstratum.so runs on. README.md says it too.
constexpr int kOldestGlibcMinor = 34;

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t bytes = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), bytes);
  REQUIRE(pclose(pipe) == 0);
  return output;
}

Names matches(const std::string& text, const std::string& pattern) {
  Names found;
  const std::regex expression(pattern);
  for (auto it = std::sregex_iterator(text.begin(), text.end(), expression); it != std::sregex_iterator(); ++it) {
    found.insert((*it)[1].str());
  }
  return found;
}

const std::string kLibrary = LIBRARY_PATH;

}  // namespace

TEST_CASE("The header's functions are exported, and nothing else") {
  const std::string header = stratum::read_file(HEADER_PATH);
  const Names declared = matches(header, R"(\b(stratum_\w+)\()");
  REQUIRE(declared.size() == 23);
  CHECK(matches(output_of("nm -D --defined-only " + kLibrary), R"( [A-Z] (\S+))") == declared);
}

TEST_CASE("Only the C library is needed") {
  const Names needed = matches(output_of("readelf -d " + kLibrary), R"(NEEDED.*\[(.*)\])");
  for (const std::string& name : needed) {
    INFO(name);
    CHECK(Names{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}.contains(name));
  }
}

TEST_CASE("The newest glibc symbol needed is of the version that is stated") {
  int newest = 0;
  for (const std::string& minor : matches(output_of("readelf -V " + kLibrary), R"(GLIBC_2\.(\d+))")) {
    newest = std::max(newest, std::stoi(minor));
  }
  CHECK(newest == kOldestGlibcMinor);
  CHECK(matches(output_of("readelf -V " + kLibrary), R"((GLIBCXX|CXXABI|GCC)_)").empty());
}

TEST_CASE("Exceptions inside the library become statuses, though its unwinder is its own") {
  void* library = dlopen(LIBRARY_PATH, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto build = reinterpret_cast<decltype(&stratum_build)>(dlsym(library, "stratum_build"));
  const auto message = reinterpret_cast<decltype(&stratum_error_message)>(dlsym(library, "stratum_error_message"));
  const auto version = reinterpret_cast<decltype(&stratum_abi_version)>(dlsym(library, "stratum_abi_version"));
  stratum_engine engine = 0;
  CHECK(version() == STRATUM_ABI_VERSION);
  CHECK(build("{}", standard_pack().c_str(), &engine) == STRATUM_CONFIG_ERROR);
  CHECK(std::string(message()) == "head_dim: missing; expected an integer from 1 to 2147483647");
  CHECK(build(standard_config().dump().c_str(), "/nowhere", &engine) == STRATUM_PACK_ERROR);
}

TEST_CASE("A driver library that is missing or is none is named") {
  const auto build_with = [](const std::string& driver) {
    return output_of("STRATUM_DRIVER=" + driver + " " + EXIT_PROBE_PATH + " open " + kLibrary + " " +
                     standard_pack().string() + " 2>&1; test $? = 2");
  };
  CHECK_THAT(build_with("/nowhere/libcuda.so"),
             Catch::StartsWith("STRATUM_DRIVER: cannot open the CUDA driver library /nowhere/libcuda.so: "));
  CHECK_THAT(build_with("libm.so.6"), Catch::StartsWith("the CUDA driver library has no cuInit"));
}

TEST_CASE("Eight processes at once build engines from one pack and load its kernels") {
  const std::string command = std::string(EXIT_PROBE_PATH) + " open " + kLibrary + " " + standard_pack().string();
  std::array<FILE*, 8> processes;
  for (FILE*& process : processes) process = popen((command + " 2>&1").c_str(), "r");
  for (FILE* process : processes) {
    REQUIRE(process != nullptr);
    CHECK(fgetc(process) == EOF);  // it had nothing to complain about
    CHECK(pclose(process) == 0);
  }
}

TEST_CASE("A process ends with code 0, whatever state its engine is in") {
  for (const char* way : {"open", "atexit", "destructor", "thread"}) {
    INFO(way);
    CHECK(output_of(std::string(EXIT_PROBE_PATH) + " " + way + " " + kLibrary + " " + standard_pack().string() +
                    " 2>&1") == "");
  }
}
