// stratum-gen doctor: what a bug report needs. Every part stands for itself, so that nothing can keep the rest back.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "generator/command/commands.h"
#include "generator/command/pack_check.h"
#include "generator/command/parallel.h"
#include "generator/command/print_json.h"
#include "generator/command/work_list.h"
#include "generator/plan/build_key.h"

namespace stratum::gen {
namespace {

using nlohmann::ordered_json;

ordered_json describe_program() {
  utsname system{};
  ::uname(&system);
  return {{"stratum-gen", STRATUM_VERSION},
          {"generator_format", kGeneratorFormat},
          {"compiler", fmt::format("{} {}",
#ifdef __clang__
                                   "clang",
#else
                                   "gcc",
#endif
                                   __VERSION__)},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"glibc", ::gnu_get_libc_version()},
          {"cores", available_cores()}};
}

ordered_json describe_toolchain(const DoctorOptions& options) {
  const std::filesystem::path root = project_root(options.templates);
  const ToolchainPin pin = read_toolchain_pin(root);
  ordered_json result = {{"pinned", {{"nvrtc", pin.versions.nvrtc}, {"ptxas", pin.versions.ptxas}}}};
  const Toolchain toolchain = find_toolchain(pin, options.toolchain, root);
  result["origin"] = toolchain.origin;
  result["nvrtc"] = toolchain.library.string();
  result["ptxas"] = toolchain.ptxas.string();
  return result;
}

ordered_json describe_pack(const DoctorOptions& options) {
  const Manifest manifest = read_manifest(options.pack);
  ordered_json result = {{"folder", options.pack.string()}, {"kernels", manifest.kernels.size()}};
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(options.pack)) {
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  }
  result["bytes"] = bytes;
  const ToolchainPin pin = read_toolchain_pin(project_root(options.templates));
  ordered_json differences = ordered_json::array();
  for (const Difference& d :
       check_pack(read_work(options.templates, options.plans, pin), manifest, options.pack, pin)) {
    differences.push_back(fmt::format("{} {}: {}", d.kind, d.name, d.what));
  }
  result["differences from the sources"] = differences;
  return result;
}

ordered_json describe_driver() {
  constexpr const char* kLibrary = "libcuda.so.1";
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {{"found", false}, {"why", ::dlerror()}};
  const auto get_version = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDriverGetVersion"));
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(library, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDeviceGetCount"));
  const auto get_name = reinterpret_cast<int (*)(char*, int, int)>(::dlsym(library, "cuDeviceGetName"));
  const auto get_attribute = reinterpret_cast<int (*)(int*, int, int)>(::dlsym(library, "cuDeviceGetAttribute"));
  ordered_json result = {{"found", true}};
  int version = 0;
  if (get_version != nullptr && get_version(&version) == 0)
    result["cuda"] = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  if (init == nullptr || get_count == nullptr || get_name == nullptr || get_attribute == nullptr) return result;
  if (const int error = init(0); error != 0) {
    result["cuInit"] = error;
    return result;
  }
  int count = 0;
  get_count(&count);
  ordered_json devices = ordered_json::array();
  for (int device = 0; device < count; ++device) {
    char name[128] = "";
    int major = 0, minor = 0;
    constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
    get_name(name, sizeof(name), device);
    get_attribute(&major, kMajor, device);
    get_attribute(&minor, kMinor, device);
    devices.push_back(fmt::format("{} ({}.{})", name, major, minor));
  }
  result["devices"] = devices;
  return result;
}

void print(const ordered_json& value, const std::string& indent) {
  for (const auto& item : value.items()) {
    const std::string label = value.is_array() ? "-" : item.key() + ":";
    if (item.value().is_structured()) {
      fmt::print("{}{}{}\n", indent, label, item.value().empty() ? " none" : "");
      print(item.value(), indent + "  ");
    } else {
      fmt::print("{}{} {}\n", indent, label,
                 item.value().is_string() ? item.value().get<std::string>() : item.value().dump());
    }
  }
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  ordered_json result = {{"ok", true}};
  const auto add = [&](const char* part, const std::function<ordered_json()>& describe) {
    try {
      result[part] = describe();
    } catch (const std::exception& error) {
      result[part] = {{"problem", error.what()}};
    }
  };
  add("program", describe_program);
  add("toolchain", [&] { return describe_toolchain(options); });
  add("pack", [&] { return describe_pack(options); });
  add("driver", describe_driver);
  if (options.json) {
    print_json(result);
  } else {
    result.erase("ok");
    print(result, "");
  }
  return kDone;
}

}  // namespace stratum::gen
