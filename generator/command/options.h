// The command line as data: one struct a command.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stratum::gen {

struct BuildOptions {
  std::filesystem::path templates = "templates";
  std::vector<std::filesystem::path> plans;  // empty: templates/plans
  std::filesystem::path out = "cubins";
  std::filesystem::path cache = "build/cache";
  std::string only;  // glob on names; empty: all
  std::string toolchain = "auto";
  int jobs = 0;  // 0: one a core
  bool json = false;
};

struct ListOptions {
  std::filesystem::path pack = "cubins";
  std::vector<std::string> filters;  // globs on names; empty: all
  bool json = false;
};

struct ShowOptions {
  std::filesystem::path pack = "cubins";
  std::string name;
  bool ptx = false;
  bool sass = false;
  bool json = false;
};

struct LintOptions {
  std::filesystem::path pack = "cubins";
  std::vector<std::filesystem::path> files;  // empty: the pack
  bool json = false;
};

struct VerifyOptions {
  std::filesystem::path templates = "templates";
  std::vector<std::filesystem::path> plans;
  std::filesystem::path pack = "cubins";
  std::filesystem::path cache = "build/cache";  // only its folder of logs is used
  std::string toolchain = "auto";
  int jobs = 0;
  bool keys = false;
  bool json = false;
};

struct DoctorOptions {
  std::filesystem::path templates = "templates";
  std::vector<std::filesystem::path> plans;
  std::filesystem::path pack = "cubins";
  std::string toolchain = "auto";
  bool json = false;
};

}  // namespace stratum::gen
