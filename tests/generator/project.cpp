#include "tests/generator/project.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>

#include "common/file.h"
#include "common/input_error.h"
#include "generator/compile/toolchain.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {

namespace fs = std::filesystem;

namespace {

// A project's folder has no .venv of its own: stratum-gen is to look in the repository's.
void use_toolchain_of_sources() {
  const char* chosen = std::getenv("VIRTUAL_ENV");
  if (chosen == nullptr || *chosen == '\0') ::setenv("VIRTUAL_ENV", STRATUM_SOURCE_DIR "/.venv", 1);
}

}  // namespace

Project::Project() {
  use_toolchain_of_sources();
  const fs::path source = STRATUM_SOURCE_DIR;
  fs::copy(source / "tests/generator/family", root(), fs::copy_options::recursive);
  fs::copy(source / "toolchain.json", root() / "toolchain.json");
}

void Project::write(const std::string& name, const std::string& text) const {
  fs::create_directories((root() / name).parent_path());
  replace_file(root() / name, text);
}

std::string Project::read(const std::string& name) const { return read_file(root() / name); }

void Project::edit(const std::string& name, const std::string& old_text, const std::string& new_text) const {
  std::string text = read(name);
  const size_t at = text.find(old_text);
  REQUIRE(at != std::string::npos);
  write(name, text.replace(at, old_text.size(), new_text));
}

nlohmann::json Project::plan(const nlohmann::json& kernels) {
  return {{"family", "fake"}, {"arch", "sm_80"}, {"dtypes", {"bfloat16"}}, {"head_dim", 64},
          {"gate_dim", 32},   {"group", 0},      {"kernels", kernels}};
}

void Project::only_plan(const nlohmann::json& plan) const {
  fs::remove_all(templates() / "plans");
  write("templates/plans/plan.json", plan.dump(2));
}

GenResult Project::gen(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) const {
  // stderr goes to a file, so that stdout can be read as data.
  std::string command = "exec env";
  // run_child() hands on next to nothing of the environment.
  for (const char* name : {"CUDA_HOME", "VIRTUAL_ENV"}) {
    if (const char* value = std::getenv(name)) command += fmt::format(" '{}={}'", name, value);
  }
  for (const std::string& variable : environment) command += fmt::format(" '{}'", variable);
  command += fmt::format(" '{}'", STRATUM_GEN);
  for (const std::string& argument : arguments) command += fmt::format(" '{}'", argument);
  const fs::path errors = root() / "stderr.txt";
  const ChildResult child = run_child({"/bin/sh", "-c", fmt::format("{} 2>'{}'", command, errors.string())}, root());
  REQUIRE(child.signal == 0);
  return {child.exit_code, child.output, read_file(errors)};
}

pid_t Project::start(const std::vector<std::string>& arguments) const {
  std::vector<std::string> texts = {STRATUM_GEN};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    if (::chdir(root().c_str()) != 0 || ::dup2(null, STDOUT_FILENO) < 0 || ::dup2(null, STDERR_FILENO) < 0)
      ::_exit(126);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return child;
}

Manifest Project::whole_pack() const {
  Manifest manifest = read_manifest(pack());
  for (const ManifestKernel& kernel : manifest.kernels) {
    read_pack_file(pack(), kernel.cubin);
    read_pack_file(pack(), kernel.ptx);
  }
  return manifest;
}

std::vector<std::string> Project::snapshot() const {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(pack())) {
    files.push_back(fmt::format("{} {} {}", entry.path().filename().string(), entry.file_size(),
                                entry.last_write_time().time_since_epoch().count()));
  }
  std::ranges::sort(files);
  return files;
}

void require_toolchain() {
  use_toolchain_of_sources();
  static const std::string problem = [] {
    try {
      find_toolchain(read_toolchain_pin(STRATUM_SOURCE_DIR), "auto", STRATUM_SOURCE_DIR);
      return std::string();
    } catch (const ToolchainError& error) {
      return std::string(error.what());
    }
  }();
  if (!problem.empty()) FAIL("this test compiles kernels; `make toolchain` installs what it needs: " << problem);
}

std::string input_error(const std::function<void()>& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  FAIL("no InputError was thrown");
  return "";
}

}  // namespace stratum::gen
