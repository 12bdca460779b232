// Progress of a long command on stderr: a bar that stays on one line of a terminal, a line a piece elsewhere.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

namespace stratum::gen {

class Progress {
 public:
  explicit Progress(size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more piece is done. Safe to call from several threads.
  void advance(const std::string& what);

  // Prints a line of its own, above the bar if there is one. Safe to call from several threads.
  void note(const std::string& text);

 private:
  void draw(const std::string& what) const;
  void clear() const;

  const size_t total_;
  const bool terminal_;
  std::mutex mutex_;
  size_t done_ = 0;
};

}  // namespace stratum::gen
