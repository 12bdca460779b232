// The emulator's launches: the cubin that a module was loaded from leads, by its hash, to the pack's PTX of the kernel.
//
// The pack is the folder that STRATUM_EMULATOR_PACK names, else `cubins` beside the libstratum.so that is loaded.
#include "driver/execution.h"

#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "common/file.h"
#include "common/manifest.h"
#include "common/sha256.h"
#include "common/zstd_codec.h"
#include "machine/run.h"

namespace stratum::emulator::driver {
namespace {

constexpr int kLaunchFailed = 719;

std::filesystem::path pack_folder() {
  if (const char* chosen = std::getenv("STRATUM_EMULATOR_PACK")) return chosen;
  std::string library;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const std::string_view name = info->dlpi_name;
        if (name.ends_with("/libstratum.so")) *static_cast<std::string*>(found) = name;
        return 0;
      },
      &library);
  return std::filesystem::path(library).parent_path() / "cubins";
}

// The kernel of a cubin. Throws if the pack has no such cubin, or PTX that can't be decoded.
emulator::Kernel load(const std::string& image) {
  static const std::filesystem::path folder = pack_folder();
  static const stratum::Manifest manifest = stratum::read_manifest(folder);
  const std::string hash = stratum::sha256_hex(image);
  for (const stratum::ManifestKernel& kernel : manifest.kernels) {
    if (kernel.cubin.sha256 != hash) continue;
    const std::string frame = stratum::read_file(folder / kernel.ptx.file);
    return emulator::Kernel::load(stratum::zstd_decompress(frame, kernel.ptx.bytes, kernel.ptx.file), kernel.name);
  }
  throw std::runtime_error("the pack in " + folder.string() + " has no cubin of hash " + hash);
}

const emulator::Kernel& kernel_of(const Module& module) {
  static std::map<std::string, emulator::Kernel> loaded;  // by image; calls are serialised by the state's mutex
  const auto found = loaded.find(module.image);
  return found != loaded.end() ? found->second : loaded.emplace(module.image, load(module.image)).first->second;
}

}  // namespace

int execute(State& s, const Function& function, const Launch& launch) {
  if (!s.execute || launch.captured) return kSuccess;
  try {
    const emulator::Kernel& kernel = kernel_of(*function.module);
    if (launch.params.size() != kernel.parameter_bytes()) {
      s.fault(launch.kernel + ": given " + std::to_string(launch.params.size()) + " bytes of parameters, takes " +
              std::to_string(kernel.parameter_bytes()));
      return kInvalidValue;
    }
    emulator::Launch run{.shared_bytes = launch.shared_bytes, .parameters = launch.params.data()};
    std::copy_n(launch.grid, 3, run.grid);
    std::copy_n(launch.block, 3, run.block);
    const emulator::MemoryMap memory = memory_of(s, launch.call.get());
    run.options.checks = true;
    run.options.memory = &memory;
    emulator::run(kernel, run);
    return kSuccess;
  } catch (const std::exception& error) {
    s.fault(error.what());
    return kLaunchFailed;
  }
}

}  // namespace stratum::emulator::driver
