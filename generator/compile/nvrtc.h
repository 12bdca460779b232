// NVRTC, NVIDIA's CUDA C++ compiler as a library, opened at run time: no CUDA header or library at build time.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stratum::gen {

struct NvrtcResult {
  bool ok = false;
  std::string ptx;  // empty unless ok
  std::string log;  // warnings and errors
};

class Nvrtc {
 public:
  // Opens a libnvrtc.so and the builtins that lie beside it. Throws ToolchainError.
  explicit Nvrtc(const std::filesystem::path& library);
  ~Nvrtc();
  Nvrtc(Nvrtc&&) noexcept;
  Nvrtc& operator=(Nvrtc&&) noexcept;

  // "13.0.88": the library tells only "13.0", so this is read from the head of a PTX it writes.
  std::string version() const;

  // Compiles a translation unit to PTX. `headers` are all the files it can include. An error in the source is a result
  // with a log; any other failure throws ToolchainError. Safe to call from several threads.
  NvrtcResult compile(const std::string& name, const std::string& source,
                      const std::map<std::string, std::string>& headers, const std::vector<std::string>& options) const;

 private:
  struct Api;
  std::unique_ptr<const Api> api_;
};

}  // namespace stratum::gen
