// Any text is a module whose entries can be decoded, or a ParseError.
#include <cstddef>
#include <cstdint>

#include "exec/decode.h"
#include "ptx/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stratum::emulator;
  try {
    const ptx::Module module = ptx::parse({reinterpret_cast<const char*>(data), size});
    for (const ptx::Entry& entry : module.entries) decode(module, entry);
  } catch (const ptx::ParseError&) {
  }
  return 0;
}
