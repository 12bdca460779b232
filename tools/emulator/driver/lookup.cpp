// Functions by name.
#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "driver/results.h"

namespace stratum::emulator::driver {

// The newest version that there is: cuMemAlloc gives cuMemAlloc_v2. A function that the emulator lacks isn't found.
extern "C" Result cuGetProcAddress_v2(const char* symbol, void** function, int, uint64_t, int* status) {
  constexpr int kFound = 0, kNotThere = 1;
  static void* const library = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  *function = nullptr;
  for (const char* version : {"_v3", "_v2", ""}) {
    if (*function == nullptr) *function = dlsym(library, (std::string(symbol) + version).c_str());
  }
  if (status != nullptr) *status = *function != nullptr ? kFound : kNotThere;
  return *function != nullptr ? kSuccess : kNotFound;
}

}  // namespace stratum::emulator::driver
