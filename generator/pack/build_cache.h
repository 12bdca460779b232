// The build cache: compiled kernels by build key, so that nothing is compiled twice, whatever pack it was for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "generator/compile/compile_kernel.h"

namespace stratum::gen {

// A kernel ready for a pack: compressed files, hashes of the uncompressed ones, facts.
struct BuiltKernel {
  std::string cubin_frame, ptx_frame;
  PackFile cubin, ptx;  // `file` is the name it gets in a pack
  KernelFacts facts;
};

// NAME-HASH8.cubin.zst and so on, from the kernel's name and its file's hash.
std::string pack_file_name(const std::string& name, const std::string& sha256, std::string_view kind);

BuiltKernel pack_kernel(const std::string& name, const CompiledKernel& kernel);

// Three files an entry, written so that an entry is whole or absent. Safe for several threads and processes at once.
class BuildCache {
 public:
  // Creates the folder. Throws InputError.
  explicit BuildCache(std::filesystem::path folder);

  // The kernel of that name and key. A damaged entry is as good as none.
  std::optional<BuiltKernel> find(const std::string& name, const std::string& key) const;

  void store(const std::string& key, const BuiltKernel& kernel) const;

  // Where logs are kept.
  std::filesystem::path logs() const { return folder_ / "logs"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace stratum::gen
