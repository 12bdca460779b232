// Modules. An image is a cubin, or any text with the kernel's name in it.
#include <algorithm>
#include <cstring>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

// The bytes of an image, which the caller doesn't say: up to the end of its last table if it is ELF.
size_t image_bytes(const void* image) {
  const auto* bytes = static_cast<const uint8_t*>(image);
  if (std::memcmp(bytes, "\177ELF", 4) != 0) return std::strlen(static_cast<const char*>(image));
  uint64_t sections = 0, segments = 0;
  uint16_t segment_bytes = 0, segment_count = 0, section_bytes = 0, section_count = 0;
  std::memcpy(&segments, bytes + 32, 8);
  std::memcpy(&sections, bytes + 40, 8);
  std::memcpy(&segment_bytes, bytes + 54, 2);
  std::memcpy(&segment_count, bytes + 56, 2);
  std::memcpy(&section_bytes, bytes + 58, 2);
  std::memcpy(&section_count, bytes + 60, 2);
  return std::max(segments + segment_bytes * segment_count, sections + section_bytes * section_count);
}

Result load(const char* name, Module** module, const void* image) {
  return unsafe_call(name, [&](State& s, Device& device) -> Result {
    if (image == nullptr) return s.refuse(kInvalidValue, std::string(name) + ": image: expected one, got null");
    const size_t bytes = image_bytes(image);
    if (bytes == 0) return s.refuse(kInvalidImage, std::string(name) + ": the image is empty");
    *module = s.modules.make(Module{&device, {static_cast<const char*>(image), bytes}});
    return kSuccess;
  });
}

}  // namespace

extern "C" {

Result cuModuleLoadData(Module** module, const void* image) { return load("cuModuleLoadData", module, image); }

// Options are for a compiler of PTX, and there is none.
Result cuModuleLoadDataEx(Module** module, const void* image, unsigned, int*, void**) {
  return load("cuModuleLoadDataEx", module, image);
}

Result cuModuleUnload(Module* handle) {
  return unsafe_call("cuModuleUnload", [&](State& s, Device&) {
    Module* module = s.modules.find(handle);
    if (module == nullptr) return s.refuse(kInvalidHandle, "cuModuleUnload of an unknown module");
    for (Function* function : s.functions.all(true)) {
      if (function->module == module) s.functions.destroy(function);
    }
    s.modules.destroy(module);
    return kSuccess;
  });
}

Result cuModuleGetFunction(Function** function, Module* handle, const char* name) {
  return context_call("cuModuleGetFunction", [&](State& s, Device&) -> Result {
    Module* module = s.modules.find(handle);
    if (module == nullptr) return s.refuse(kInvalidHandle, "cuModuleGetFunction of an unknown module");
    if (module->image.find(name) == std::string::npos) return kNotFound;
    *function = s.functions.make(Function{module, name});
    return kSuccess;
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
