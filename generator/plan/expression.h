// Integer expressions of family.json: `tile_m * (head_dim + 8) * 2`, over names that the caller gives values for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stratum::gen {

using Variables = std::map<std::string, int64_t, std::less<>>;

// + - * / % with integer division, comparisons and ! && || that give 0 or 1, parentheses, and the functions min(a, b),
// max(a, b), ceil_div(a, b), if(condition, then, else). && || and if() evaluate only what they need.
class Expression {
 public:
  // Throws InputError with the text and the position of what is wrong with it.
  static Expression parse(std::string text);

  // Throws InputError, with the text and the position: a name without a value, a division by zero, a value beyond 64
  // bits.
  int64_t evaluate(const Variables& variables) const;

  // Calls `visit(name, position)` for every variable that occurs; positions count characters from 1.
  void visit_names(const std::function<void(const std::string&, size_t)>& visit) const;

  const std::string& text() const { return *text_; }

  struct Node;

 private:
  Expression(std::string text, std::unique_ptr<const Node> root);

  std::shared_ptr<const std::string> text_;
  std::shared_ptr<const Node> root_;
};

}  // namespace stratum::gen
