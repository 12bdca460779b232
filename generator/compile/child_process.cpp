#include "generator/compile/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "common/input_error.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {
namespace {

std::string variable(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return fmt::format("{}={}", name, value != nullptr ? value : fallback);
}

class SpawnActions {
 public:
  SpawnActions(const std::filesystem::path& folder, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
  }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

std::string read_to_end(int fd) {
  std::string output;
  char buffer[1 << 14];
  for (;;) {
    const ssize_t count = ::read(fd, buffer, sizeof(buffer));
    if (count > 0) {
      output.append(buffer, static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return output;
    }
  }
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments, const std::filesystem::path& folder) {
  // Close-on-exec keeps the pipes of other threads' children out of this one, which would hold them open.
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw ToolchainError(fmt::format("pipe: {}", std::strerror(errno)));

  // A relative path is the caller's, not the child's folder's.
  std::string program = std::filesystem::absolute(arguments[0]).string();
  std::vector<char*> argv = {program.data()};
  for (const std::string& argument : std::span(arguments).subspan(1)) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::string environment[] = {variable("PATH", "/usr/bin:/bin"), variable("TMPDIR", "/tmp"), "LC_ALL=C"};
  char* envp[] = {environment[0].data(), environment[1].data(), environment[2].data(), nullptr};

  pid_t child = 0;
  const int error = ::posix_spawn(&child, argv[0], SpawnActions(folder, pipe[1]).get(), nullptr, argv.data(), envp);
  ::close(pipe[1]);
  ChildResult result;
  if (error == 0) result.output = read_to_end(pipe[0]);
  ::close(pipe[0]);
  if (error != 0) throw ToolchainError(fmt::format("{}: cannot start: {}", arguments[0], std::strerror(error)));

  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw ToolchainError(fmt::format("{}: waitpid: {}", arguments[0], std::strerror(errno)));
  }
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "stratum-gen-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw InputError(fmt::format("{}: cannot create: {}", pattern, std::strerror(errno)));
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a leftover in the temporary folder harms nobody
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace stratum::gen
