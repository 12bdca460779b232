// Aligned columns of text.
#pragma once

#include <string>
#include <vector>

namespace stratum::gen {

class Table {
 public:
  // The first column is aligned left, the others right.
  explicit Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  // Ends with a newline.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// 61234 -> "59.8 KiB".
std::string kibibytes(int64_t bytes);

}  // namespace stratum::gen
