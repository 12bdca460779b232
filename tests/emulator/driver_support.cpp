#include "driver_support.h"

#include <algorithm>
#include <cstdlib>

#include "common/manifest.h"
#include "driver/inspect.h"

namespace {

constexpr unsigned kNonBlocking = 1;

// How the driver of these tests behaves, set before its first call.
struct Environment {
  Environment() {
    setenv("STRATUM_EMULATOR_PACK", PACK_PATH, 1);
    setenv("STRATUM_EMULATOR_CC", "8.0,9.0", 1);
    setenv("STRATUM_EMULATOR_SCHEDULE", "late", 0);
    setenv("STRATUM_EMULATOR_LEAKS", "error", 1);
  }
} environment;

}  // namespace

Device::Device() {
  REQUIRE(cuInit(0) == 0);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == 0);
  REQUIRE(cuCtxSetCurrent(context) == 0);
  emulator_reset();
  REQUIRE(cuMemAlloc_v2(&word, 4) == 0);
  for (void*& stream : streams) REQUIRE(cuStreamCreate(&stream, kNonBlocking) == 0);
  REQUIRE(cuEventCreate(&event, 0) == 0);
}

Device::~Device() {
  CHECK(cuMemFree_v2(word) == 0);
  for (void* stream : streams) CHECK(cuStreamDestroy_v2(stream) == 0);
  CHECK(cuEventDestroy_v2(event) == 0);
  emulator_reset();
}

MadeKernel::MadeKernel(const std::string& parameters, const std::string& body)
    : name("gated_page_copy_sm80_bf16_d64_r32_g0_t256") {
  static const stratum::Manifest pack = stratum::read_manifest(PACK_PATH);
  const auto row = std::ranges::find(pack.kernels, name, &stratum::ManifestKernel::name);
  REQUIRE(row != pack.kernels.end());
  image = stratum::read_pack_file(PACK_PATH, row->cubin);
  const std::string ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " + name + "(" + parameters +
                          ")\n{\n.reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n" + body + "\nret;\n}\n";
  const char* problem = emulator_override(name.c_str(), ptx.c_str());
  REQUIRE((problem != nullptr ? std::string(problem) : "") == "");
  REQUIRE(cuModuleLoadData(&module, image.data()) == 0);
  REQUIRE(cuModuleGetFunction(&function, module, name.c_str()) == 0);
}

MadeKernel::~MadeKernel() {
  CHECK(cuModuleUnload(module) == 0);
  emulator_override(name.c_str(), nullptr);
}

std::string last_fault() {
  const char* fault = emulator_fault(emulator_fault_count() - 1);
  return fault != nullptr ? fault : "";
}
