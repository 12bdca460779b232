#include "generator/command/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace stratum::gen {
namespace {

size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(size_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {
  if (terminal_ && total_ > 0) draw("");
}

Progress::~Progress() { clear(); }

void Progress::clear() const {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::draw(const std::string& what) const {
  constexpr size_t kBar = 24;
  const size_t filled = total_ == 0 ? kBar : kBar * done_ / total_;
  std::string line =
      fmt::format("[{}{}] {}/{} {}", std::string(filled, '#'), std::string(kBar - filled, '.'), done_, total_, what);
  line.resize(std::min(line.size(), terminal_width() - 1));
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
}

void Progress::advance(const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (terminal_) {
    draw(what);
  } else {
    fmt::print(stderr, "[{}/{}] {}\n", done_, total_, what);
  }
}

void Progress::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  clear();
  fmt::print(stderr, "{}\n", text);
  if (terminal_) draw("");
}

}  // namespace stratum::gen
