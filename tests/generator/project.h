// A project of its own for each test: the fake family in a temporary folder, and stratum-gen run in it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/manifest.h"
#include "generator/compile/child_process.h"

namespace stratum::gen {

struct GenResult {
  int exit_code;
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

class Project {
 public:
  // A copy of tests/generator/family, with the repository's toolchain.json.
  Project();

  const std::filesystem::path& root() const { return folder_.path(); }
  std::filesystem::path templates() const { return root() / "templates"; }
  std::filesystem::path pack() const { return root() / "cubins"; }

  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  // Replaces `old_text`, which must occur, in a file.
  void edit(const std::string& name, const std::string& old_text, const std::string& new_text) const;

  // A plan for sm_80, bfloat16, head_dim 64, gate_dim 32, group 0 with these kernels, as JSON.
  static nlohmann::json plan(const nlohmann::json& kernels);
  // Makes it the only plan.
  void only_plan(const nlohmann::json& plan) const;

  // Runs `stratum-gen arguments...` in root(). `environment` holds NAME=value.
  GenResult gen(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) const;

  // Starts it and returns its process.
  pid_t start(const std::vector<std::string>& arguments) const;

  // Throws unless every file that the manifest refers to is there with the right bytes; returns the manifest.
  Manifest whole_pack() const;

  // Name -> (time of last change, size) of every file in the pack.
  std::vector<std::string> snapshot() const;

 private:
  TemporaryFolder folder_;
};

// Fails the test, with what helps, unless the pinned compilers are there.
void require_toolchain();

// What `function` throws, which must be an InputError.
std::string input_error(const std::function<void()>& function);

}  // namespace stratum::gen
