#include "generator/plan/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "common/input_error.h"

namespace stratum::gen {

struct Expression::Node {
  enum class Kind { kNumber, kName, kCall };
  Kind kind;
  size_t position;  // from 1
  int64_t number = 0;
  std::string name;  // a variable, an operator or a function
  std::vector<std::unique_ptr<const Node>> operands;
};

namespace {

using Node = Expression::Node;
using NodePointer = std::unique_ptr<const Node>;

[[noreturn]] void fail(const std::string& text, size_t position, std::string_view message) {
  throw InputError(fmt::format("\"{}\" at position {}: {}", text, position, message));
}

struct Function {
  std::string_view name;
  size_t operands;
};
constexpr std::array<Function, 4> kFunctions = {{{"min", 2}, {"max", 2}, {"ceil_div", 2}, {"if", 3}}};

// Binary operators by level, the loosest first; all bind to the left.
const std::vector<std::vector<std::string_view>> kLevels = {
    {"||"}, {"&&"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};
constexpr size_t kComparisonLevel = 2;

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  NodePointer parse() {
    NodePointer root = binary(0);
    skip_spaces();
    if (at_ < text_.size()) fail(text_, at_ + 1, fmt::format("expected an operator or the end, got {}", here()));
    return root;
  }

 private:
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::string here() const { return at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "the end"; }

  bool take(std::string_view token) {
    skip_spaces();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }

  void expect(char token) {
    if (!take({&token, 1})) fail(text_, at_ + 1, fmt::format("expected '{}', got {}", token, here()));
  }

  std::optional<std::string_view> take_operator(size_t level) {
    for (const std::string_view symbol : kLevels[level]) {
      if (take(symbol)) return symbol;
    }
    return std::nullopt;
  }

  NodePointer call(size_t position, std::string_view name, std::vector<NodePointer> operands) {
    return std::make_unique<Node>(Node{Node::Kind::kCall, position, 0, std::string(name), std::move(operands)});
  }

  NodePointer binary(size_t level) {
    if (level == kLevels.size()) return unary();
    NodePointer left = binary(level + 1);
    for (bool chained = false;; chained = true) {
      skip_spaces();
      const size_t position = at_ + 1;
      const auto symbol = take_operator(level);
      if (!symbol) return left;
      if (chained && level == kComparisonLevel) {
        fail(text_, position, "comparisons do not chain; join two of them with &&");
      }
      std::vector<NodePointer> operands;
      operands.push_back(std::move(left));
      operands.push_back(binary(level + 1));
      left = call(position, *symbol, std::move(operands));
    }
  }

  NodePointer unary() {
    skip_spaces();
    const size_t position = at_ + 1;
    // A text of thousands of brackets must give an error, not end the process.
    constexpr int kDeepest = 100;
    if (++depth_ > kDeepest) fail(text_, position, "nested too deeply");
    NodePointer node;
    const bool negate = take("-");
    if (negate || take("!")) {
      std::vector<NodePointer> operands;
      operands.push_back(unary());
      node = call(position, negate ? "negate" : "!", std::move(operands));
    } else {
      node = value();
    }
    --depth_;
    return node;
  }

  NodePointer value() {
    skip_spaces();
    const size_t position = at_ + 1;
    if (take("(")) {
      NodePointer inner = binary(0);
      expect(')');
      return inner;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word.empty()) fail(text_, position, fmt::format("expected a number, a name or '(', got {}", here()));
    if (std::isdigit(static_cast<unsigned char>(word[0]))) return number(word, position);
    if (take("(")) return function(word, position);
    return std::make_unique<Node>(Node{Node::Kind::kName, position, 0, word, {}});
  }

  NodePointer number(const std::string& word, size_t position) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) {
      fail(text_, position, fmt::format("not a 64-bit decimal integer: {}", word));
    }
    return std::make_unique<Node>(Node{Node::Kind::kNumber, position, value, {}, {}});
  }

  NodePointer function(const std::string& name, size_t position) {
    const auto found = std::ranges::find(kFunctions, name, &Function::name);
    if (found == kFunctions.end()) {
      fail(text_, position, fmt::format("unknown function {}; there are min, max, ceil_div, if", name));
    }
    std::vector<NodePointer> operands;
    do {
      operands.push_back(binary(0));
    } while (take(","));
    expect(')');
    if (operands.size() != found->operands) {
      fail(text_, position, fmt::format("{} takes {} values, got {}", name, found->operands, operands.size()));
    }
    return call(position, name, std::move(operands));
  }

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
};

class Evaluator {
 public:
  Evaluator(const std::string& text, const Variables& variables) : text_(text), variables_(variables) {}

  int64_t value(const Node& node) const {
    switch (node.kind) {
      case Node::Kind::kNumber:
        return node.number;
      case Node::Kind::kName:
        if (const auto found = variables_.find(node.name); found != variables_.end()) return found->second;
        fail(text_, node.position, fmt::format("no value for {}", node.name));
      case Node::Kind::kCall:
        return call(node);
    }
    fail(text_, node.position, "not an expression");
  }

 private:
  int64_t operand(const Node& node, size_t index) const { return value(*node.operands[index]); }

  int64_t call(const Node& node) const {
    const std::string& name = node.name;
    const int64_t a = operand(node, 0);
    if (name == "!") return a == 0;
    if (name == "if") return operand(node, a != 0 ? 1 : 2);
    if (name == "&&") return a != 0 && operand(node, 1) != 0;
    if (name == "||") return a != 0 || operand(node, 1) != 0;
    int64_t result = 0;
    bool overflow = false;
    if (name == "negate") {
      overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
    } else {
      const int64_t b = operand(node, 1);
      if (name == "==") return a == b;
      if (name == "!=") return a != b;
      if (name == "<") return a < b;
      if (name == "<=") return a <= b;
      if (name == ">") return a > b;
      if (name == ">=") return a >= b;
      if (name == "min") return std::min(a, b);
      if (name == "max") return std::max(a, b);
      if (name == "+") overflow = __builtin_add_overflow(a, b, &result);
      if (name == "-") overflow = __builtin_sub_overflow(a, b, &result);
      if (name == "*") overflow = __builtin_mul_overflow(a, b, &result);
      if (name == "/" || name == "%" || name == "ceil_div") {
        if (b == 0) fail(text_, node.position, "division by zero");
        if (a == INT64_MIN && b == -1) fail(text_, node.position, "the value does not fit 64 bits");
        if (name == "%") return a % b;
        const bool round_up = name == "ceil_div" && a % b != 0 && (a < 0) == (b < 0);
        return a / b + (round_up ? 1 : 0);
      }
    }
    if (overflow) fail(text_, node.position, "the value does not fit 64 bits");
    return result;
  }

  const std::string& text_;
  const Variables& variables_;
};

void visit(const Node& node, const std::function<void(const std::string&, size_t)>& visitor) {
  if (node.kind == Node::Kind::kName) visitor(node.name, node.position);
  for (const NodePointer& operand : node.operands) visit(*operand, visitor);
}

}  // namespace

Expression::Expression(std::string text, std::unique_ptr<const Node> root)
    : text_(std::make_shared<const std::string>(std::move(text))), root_(std::move(root)) {}

Expression Expression::parse(std::string text) {
  NodePointer root = Parser(text).parse();
  return Expression(std::move(text), std::move(root));
}

int64_t Expression::evaluate(const Variables& variables) const { return Evaluator(*text_, variables).value(*root_); }

void Expression::visit_names(const std::function<void(const std::string&, size_t)>& visitor) const {
  visit(*root_, visitor);
}

}  // namespace stratum::gen
