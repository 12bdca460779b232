// The pinned compilers: which versions, where they are.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/manifest.h"
#include "generator/compile/nvrtc.h"

namespace stratum::gen {

// toolchain.json, the one file that pins them.
struct ToolchainPin {
  ToolchainVersions versions;
  std::vector<std::string> wheels;  // what to ask pip for
  std::filesystem::path file;
};

// Reads `root`/toolchain.json. Throws InputError.
ToolchainPin read_toolchain_pin(const std::filesystem::path& root);

struct Toolchain {
  Nvrtc nvrtc;
  std::filesystem::path library;  // libnvrtc
  std::filesystem::path ptxas;
  std::string origin;  // "system" or "wheels" or a folder
};

// Folders that may hold programs of CUDA: those on PATH, then bin/ of $CUDA_HOME, of /usr/local/cuda, and of the wheels
// in `root`/.venv or $VIRTUAL_ENV. Not all need exist.
std::vector<std::filesystem::path> program_folders(const std::filesystem::path& root);

// Where to look. "auto": the machine's CUDA, then the wheels of `root`/.venv or $VIRTUAL_ENV; "system" or "wheels":
// that alone; anything else: a folder, either of a CUDA toolkit, or of Python packages (site-packages, or a virtual
// environment). The first place with exactly the pinned versions is taken. Throws ToolchainError that tells every place
// looked at, what was there, and the pip command that helps.
Toolchain find_toolchain(const ToolchainPin& pin, const std::string& choice, const std::filesystem::path& root);

}  // namespace stratum::gen
