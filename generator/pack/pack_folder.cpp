#include "generator/pack/pack_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include "common/file.h"
#include "common/input_error.h"

namespace stratum::gen {
namespace {

namespace fs = std::filesystem;

bool is_ours(const std::string& name) {
  return name.ends_with(".cubin.zst") || name.ends_with(".ptx.zst") || name.starts_with(kTemporaryPrefix);
}

bool has_bytes(const fs::path& path, const std::string& bytes) {
  std::error_code error;
  return fs::file_size(path, error) == bytes.size() && !error && read_file(path) == bytes;
}

}  // namespace

PackFolder::PackFolder(fs::path folder, const std::function<void()>& waiting) : path_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw InputError(fmt::format("{}: cannot create: {}", path_.string(), error.message()));
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw InputError(fmt::format("{}: cannot open: {}", path_.string(), std::strerror(errno)));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) waiting();
  while (::flock(lock_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int reason = errno;
    ::close(lock_);
    throw InputError(fmt::format("{}: cannot lock: {}", path_.string(), std::strerror(reason)));
  }
}

PackFolder::~PackFolder() { ::close(lock_); }

std::optional<Manifest> PackFolder::manifest() const {
  if (!fs::exists(path_ / kManifestFile)) return std::nullopt;
  return read_manifest(path_);
}

bool PackFolder::holds(const PackFile& file) const {
  try {
    read_pack_file(path_, file);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

bool PackFolder::publish(const Manifest& manifest, const std::map<std::string, std::string>& files) const {
  const std::string text = serialise_manifest(manifest);
  parse_manifest(text, (path_ / kManifestFile).string());  // what a reader would refuse is never published
  bool changed = false;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    if (has_bytes(path_ / name, bytes)) return;
    replace_file(path_ / name, bytes);
    changed = true;
  };
  for (const auto& [name, bytes] : files) write(name, bytes);
  write(std::string(kManifestFile), text);

  std::set<std::string> referred;
  for (const ManifestKernel& kernel : manifest.kernels) {
    referred.insert(kernel.cubin.file);
    referred.insert(kernel.ptx.file);
  }
  std::vector<fs::path> unreferenced;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && is_ours(name) && !referred.contains(name)) unreferenced.push_back(entry.path());
  }
  for (const fs::path& path : unreferenced) {
    std::error_code ignored;  // nothing refers to it, and the next build tries again
    changed |= fs::remove(path, ignored);
  }
  return changed;
}

}  // namespace stratum::gen
