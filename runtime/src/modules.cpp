#include "modules.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace stratum {
namespace {

using cuda::driver;

template <typename... Args>
void call_for(const std::string& kernel, const cuda::Call<Args...>& call, std::type_identity_t<Args>... args) {
  if (const cuda::Result result = call.attempt(args...); result != cuda::kSuccess) {
    cuda::throw_driver_error(call.symbol(), result, kernel);
  }
}

cuda::Function load(const std::string& image, const std::string& name, int32_t shared_bytes) {
  cuda::Module loaded = nullptr;
  call_for(name, driver().module_load_data, &loaded, image.c_str());
  const auto unload = [](cuda::Module module) { driver().module_unload.attempt(module); };
  std::unique_ptr<std::remove_pointer_t<cuda::Module>, decltype(unload)> module(loaded, unload);
  cuda::Function function = nullptr;
  call_for(name, driver().module_get_function, &function, module.get(), name.c_str());
  // The driver may put off loading until the first launch, which would be too late inside a graph capture.
  call_for(name, driver().function_load, function);
  call_for(name, driver().function_set_attribute, function, cuda::kMaxDynamicSharedBytes, shared_bytes);
  static_cast<void>(module.release());
  return function;
}

}  // namespace

cuda::Function load_function(cuda::Device device, const std::string& sha256, const std::string& image,
                             const std::string& name, int32_t shared_bytes) {
  // Both are never destroyed, as the modules are not.
  static std::mutex& mutex = *new std::mutex;
  static auto& functions = *new std::map<std::pair<cuda::Device, std::string>, cuda::Function>;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(device, sha256);
  if (const auto known = functions.find(key); known != functions.end()) return known->second;
  const cuda::Function function = load(image, name, shared_bytes);
  functions.emplace(key, function);
  return function;
}

}  // namespace stratum
