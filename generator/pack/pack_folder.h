// A pack on disk that builds change: locked, read, and published so that it is whole at every moment.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/manifest.h"

namespace stratum::gen {

// Holds the exclusive lock of a pack. The lock is on the folder itself and ends with the process, however that ends.
class PackFolder {
 public:
  // Creates the folder if needed and waits for the lock; calls `waiting` once if another build has it. Throws
  // InputError.
  PackFolder(std::filesystem::path folder, const std::function<void()>& waiting);
  ~PackFolder();
  PackFolder(const PackFolder&) = delete;
  PackFolder& operator=(const PackFolder&) = delete;

  // The manifest, or nothing if there is none. One that cannot be read throws InputError.
  std::optional<Manifest> manifest() const;

  // True if the file is there with the right bytes.
  bool holds(const PackFile& file) const;

  // Makes `manifest` the pack: writes `files` (name -> bytes) that are new, replaces the manifest by one rename, then
  // removes kernel files and temporary files that it does not refer to. Other files of the folder are left alone. What
  // is already right is not written. Returns whether anything changed. On failure (a full disk) throws InputError; the
  // old pack is whole.
  bool publish(const Manifest& manifest, const std::map<std::string, std::string>& files) const;

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace stratum::gen
