// Running a program and taking what it prints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stratum::gen {

struct ChildResult {
  int exit_code = 0;   // of a program that ended by itself
  int signal = 0;      // that ended it, or 0
  std::string output;  // stdout and stderr together, in the order printed
};

// Runs `arguments` (the first is the program's path) in `folder` and waits for its end. The environment is PATH, TMPDIR
// and the C locale alone, so that no variable of the user's changes what a compiler does. Throws ToolchainError if the
// program cannot be started.
ChildResult run_child(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

// An empty folder under the system's temporary folder, removed with its content at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace stratum::gen
