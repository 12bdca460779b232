#include "common/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/input_error.h"

namespace stratum {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* doing, int error) {
  throw InputError(fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // Closes now and tells whether that succeeded: a full disk may show only here.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Removes a temporary file unless it was renamed into place.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const fs::path& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

void write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(path, "write", errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string read_file(const fs::path& path) {
  // Without O_NONBLOCK opening a FIFO would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(path, "open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(path, "read", errno);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {  // for a folder read() gives the reason
    throw InputError(fmt::format("{}: expected a regular file, got a device, pipe or socket", path.string()));
  }
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count == 0) return bytes;
    if (count < 0) {
      if (errno == EINTR) continue;
      fail(path, "read", errno);
    }
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

void replace_file(const fs::path& path, std::string_view bytes) {
  static std::atomic<unsigned> counter{0};
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  TemporaryFile temporary(folder / fmt::format("{}{}-{}", kTemporaryPrefix, ::getpid(), counter++));

  Descriptor file(::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) fail(temporary.path(), "create", errno);
  write_all(file.get(), bytes, path);
  if (::fsync(file.get()) != 0) fail(path, "flush", errno);
  if (!file.close()) fail(path, "close", errno);
  if (::rename(temporary.path().c_str(), path.c_str()) != 0) fail(path, "replace", errno);
  temporary.keep();

  // The rename itself must reach the disk before anything relies on it.
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) fail(folder, "flush", errno);
}

}  // namespace stratum
