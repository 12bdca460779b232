#include "generator/compile/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "generator/compile/tool_version.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {
namespace {

// From nvrtc.h, whose values are part of the library's ABI.
using Result = int;
using Program = struct OpaqueProgram*;
constexpr Result kSuccess = 0;
constexpr Result kErrorCompilation = 6;

// Never closed: NVRTC keeps memory of its own that unloading would leave behind.
class Library {
 public:
  Library(const std::filesystem::path& path, int flags) : path_(path), handle_(::dlopen(path.c_str(), flags)) {
    if (handle_ == nullptr) throw ToolchainError(fmt::format("{}: cannot open: {}", path.string(), ::dlerror()));
  }

  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    if (function == nullptr) throw ToolchainError(fmt::format("{}: has no function {}", path_.string(), name));
  }

 private:
  std::filesystem::path path_;
  void* handle_;
};

}  // namespace

struct Nvrtc::Api {
  const char* (*error_string)(Result) = nullptr;
  Result (*create_program)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  Result (*compile_program)(Program, int, const char* const*) = nullptr;
  Result (*get_ptx_size)(Program, size_t*) = nullptr;
  Result (*get_ptx)(Program, char*) = nullptr;
  Result (*get_log_size)(Program, size_t*) = nullptr;
  Result (*get_log)(Program, char*) = nullptr;
  Result (*destroy_program)(Program*) = nullptr;

  void check(Result result, const char* call) const {
    if (result != kSuccess) throw ToolchainError(fmt::format("{}: {}", call, error_string(result)));
  }
};

namespace {

// A text that NVRTC hands out as a size, the closing zero counted, and a copy.
template <class Api, class Size, class Copy>
std::string fetch(const Api& api, Program program, Size size_of, Copy copy, const char* call) {
  size_t size = 0;
  api.check(size_of(program, &size), call);
  std::string text(size, '\0');
  api.check(copy(program, text.data()), call);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

Nvrtc::Nvrtc(const std::filesystem::path& path) {
  auto api = std::make_unique<Api>();
  // NVRTC opens its builtins by bare name. Opened first, from the same folder, they are the ones it gets, whatever the
  // loader's search path holds.
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so.")) {
      Library(entry.path(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  const Library library(path, RTLD_NOW | RTLD_LOCAL);
  library.find("nvrtcGetErrorString", api->error_string);
  library.find("nvrtcCreateProgram", api->create_program);
  library.find("nvrtcCompileProgram", api->compile_program);
  library.find("nvrtcGetPTXSize", api->get_ptx_size);
  library.find("nvrtcGetPTX", api->get_ptx);
  library.find("nvrtcGetProgramLogSize", api->get_log_size);
  library.find("nvrtcGetProgramLog", api->get_log);
  library.find("nvrtcDestroyProgram", api->destroy_program);
  api_ = std::move(api);
}

Nvrtc::~Nvrtc() = default;
Nvrtc::Nvrtc(Nvrtc&&) noexcept = default;
Nvrtc& Nvrtc::operator=(Nvrtc&&) noexcept = default;

NvrtcResult Nvrtc::compile(const std::string& name, const std::string& source,
                           const std::map<std::string, std::string>& headers,
                           const std::vector<std::string>& options) const {
  std::vector<const char*> header_names, header_texts, arguments;
  for (const auto& [header, text] : headers) {
    header_names.push_back(header.c_str());
    header_texts.push_back(text.c_str());
  }
  for (const std::string& option : options) arguments.push_back(option.c_str());

  Program program = nullptr;
  api_->check(api_->create_program(&program, source.c_str(), name.c_str(), static_cast<int>(headers.size()),
                                   header_texts.data(), header_names.data()),
              "nvrtcCreateProgram");
  const auto destroy = [this](Program p) { api_->destroy_program(&p); };
  const std::unique_ptr<OpaqueProgram, decltype(destroy)> owner(program, destroy);

  const Result result = api_->compile_program(program, static_cast<int>(arguments.size()), arguments.data());
  NvrtcResult compiled;
  compiled.log = fetch(*api_, program, api_->get_log_size, api_->get_log, "nvrtcGetProgramLog");
  if (result == kErrorCompilation) return compiled;
  if (result != kSuccess) {
    throw ToolchainError(fmt::format("nvrtcCompileProgram: {}\n{}", api_->error_string(result), compiled.log));
  }
  compiled.ok = true;
  compiled.ptx = fetch(*api_, program, api_->get_ptx_size, api_->get_ptx, "nvrtcGetPTX");
  return compiled;
}

std::string Nvrtc::version() const {
  const NvrtcResult probe = compile("version", "extern \"C\" __global__ void version() {}", {}, {"--no-cache"});
  std::string version = find_tool_version(probe.ptx);
  if (version.empty()) throw ToolchainError("NVRTC: its PTX does not tell its version");
  return version;
}

}  // namespace stratum::gen
