// Any body of a kernel that can be decoded ends within its limit of instructions or in a Fault, and touches nothing but
// the memory that the launch may use.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/program.h"
#include "machine/fault.h"
#include "machine/memory_map.h"
#include "machine/run.h"
#include "ptx/module.h"

namespace {

constexpr size_t kWords = 1024;
constexpr size_t kMostRegisterBytes = 1 << 20, kMostSharedBytes = 1 << 16;

std::string module_of(const std::string& body) {
  return ".version 9.0\n.target sm_80\n.address_size 64\n"
         ".extern .shared .align 16 .b8 dynamic[];\n"
         ".visible .entry test(.param .u64 in, .param .u64 out)\n{\n"
         ".reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %rd<16>;\n"
         ".reg .b32 %tid; .reg .b64 %in, %out;\n"
         "mov.u32 %tid, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n" +
         body + "\nret;\n}\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stratum::emulator;
  try {
    const Kernel kernel = Kernel::load(module_of({reinterpret_cast<const char*>(data), size}), "test");
    const bool small = kernel.program().register_bytes <= kMostRegisterBytes &&
                       kernel.static_shared_bytes() <= kMostSharedBytes && kernel.parameter_bytes() == 16;
    if (!small) return 0;
    std::vector<uint32_t> in(kWords), out(kWords);
    const uint64_t parameters[] = {reinterpret_cast<uint64_t>(in.data()), reinterpret_cast<uint64_t>(out.data())};
    MemoryMap memory;
    for (const uint64_t first : parameters) memory.add_allocation({.name = "array", .first = first, .bytes = 4 * kWords});
    memory.prepare();
    for (const uint64_t seed : {0, 1}) {
      run(kernel, {.grid = {2, 1, 1},
                   .block = {48, 1, 1},
                   .shared_bytes = 4096,
                   .parameters = parameters,
                   .options = {.checks = true, .seed = seed, .limit = 2000, .threads = 1, .memory = &memory}});
    }
  } catch (const ptx::ParseError&) {
  } catch (const Fault&) {
  }
  return 0;
}
