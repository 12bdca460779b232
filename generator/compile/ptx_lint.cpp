#include "generator/compile/ptx_lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace stratum::gen {
namespace {

struct Token {
  std::string text;
  size_t line;
};

// Words (opcodes with their modifiers, directives, registers, names, numbers) and single punctuation characters;
// comments and quoted texts are left out.
std::vector<Token> tokenise(std::string_view ptx) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_$%.").find(c) != std::string_view::npos;
  };
  std::vector<Token> tokens;
  size_t line = 1;
  for (size_t at = 0; at < ptx.size();) {
    size_t end = at + 1;
    const std::string_view rest = ptx.substr(at);
    if (rest.starts_with("//")) {
      end = std::min(ptx.find('\n', at), ptx.size());
    } else if (rest.starts_with("/*")) {
      const size_t close = ptx.find("*/", at + 2);
      end = close == ptx.npos ? ptx.size() : close + 2;
    } else if (ptx[at] == '"') {
      end = std::min(ptx.find('"', at + 1), ptx.size() - 1) + 1;
    } else if (is_word(ptx[at])) {
      // "::" is part of a modifier, shared::cta; a single colon ends a label.
      while (end < ptx.size() && (is_word(ptx[end]) || ptx.substr(end, 2) == "::")) end += ptx[end] == ':' ? 2 : 1;
      tokens.push_back({std::string(ptx.substr(at, end - at)), line});
    } else if (!std::isspace(static_cast<unsigned char>(ptx[at]))) {
      tokens.push_back({std::string(1, ptx[at]), line});
    }
    line += static_cast<size_t>(std::ranges::count(ptx.substr(at, end - at), '\n'));
    at = end;
  }
  return tokens;
}

std::vector<std::string> split_modifiers(const std::string& opcode) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= opcode.size();) {
    const size_t end = std::min(opcode.find('.', begin), opcode.size());
    parts.push_back(opcode.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_float_type(std::string_view modifier) {
  constexpr std::array<std::string_view, 5> kStarts = {"f16", "f32", "f64", "bf16", "e"};
  return std::ranges::any_of(kStarts, [&](std::string_view start) {
    // Of the types in e only e4m3, e5m2 and their kin: a digit follows.
    return modifier.starts_with(start) && (start != "e" || (modifier.size() > 1 && std::isdigit(modifier[1])));
  });
}

// Bytes of a fundamental type: ".b8", ".u64", ".f16x2", ".pred".
int64_t type_bytes(std::string_view type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == type.npos) return 1;
  const int64_t bytes = std::strtol(std::string(type.substr(digits)).c_str(), nullptr, 10) / 8;
  return type.ends_with("x2") ? 2 * bytes : bytes;
}

// A PTX integer: decimal, 0x hexadecimal, 0b binary, 0 octal, with or without the U of unsigned ones.
int64_t integer_of(const std::string& literal) {
  if (literal.starts_with("0b") || literal.starts_with("0B")) {
    return std::strtoll(literal.c_str() + 2, nullptr, 2);
  }
  return std::strtoll(literal.c_str(), nullptr, 0);
}

class Linter {
 public:
  Linter(std::string_view ptx, const LintRules& rules) : rules_(rules), tokens_(tokenise(ptx)) {}

  LintReport run() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      const std::string& text = tokens_[at_].text;
      if (text[0] == '%') check_register(text);
      if (text == ".entry") read_entry();
      if (text == ".target") facts_.target = next(1);
      // ".ptr .local" is a parameter's attribute, no declaration.
      if (text == ".local" && (at_ == 0 || tokens_[at_ - 1].text != ".ptr"))
        facts_.local_bytes += read_declaration(at_ + 1, ";").bytes;
      if (text == ".maxntid" || text == ".reqntid") facts_.max_threads = product_after(at_);
      if (text == ".reqnctapercluster") facts_.cluster = product_after(at_);
      if (std::isalpha(static_cast<unsigned char>(text[0]))) check_opcode();
    }
    check_facts();
    return {std::move(facts_), std::move(findings_)};
  }

 private:
  struct Declaration {
    int64_t bytes = 0;
    size_t end = 0;  // index of the token that closed it
  };

  const std::string& next(size_t distance) const {
    static const std::string kNothing;
    return at_ + distance < tokens_.size() ? tokens_[at_ + distance].text : kNothing;
  }

  void report(std::string message) { findings_.push_back({tokens_[at_].line, std::move(message)}); }

  void check_register(const std::string& name) {
    if (name.starts_with("%clock") || name.starts_with("%globaltimer")) {
      report(fmt::format("reads {}: results or their timing must not depend on a clock", name));
    } else if (name.starts_with("%pm") && name.size() > 3 && std::isdigit(static_cast<unsigned char>(name[3]))) {
      report(fmt::format("reads the performance counter {}", name));
    }
  }

  void check_opcode() {
    std::string opcode = tokens_[at_].text;
    const std::string base = opcode.substr(0, opcode.find('.'));
    if (base == "alloca") report("alloca: local memory of a size that no plan can allow");
    if (base != "atom" && base != "red" && base != "cp" && base != "multimem") return;
    // Modifiers may be set apart by spaces.
    for (size_t distance = 1; next(distance).starts_with('.'); ++distance) opcode += next(distance);
    const std::vector<std::string> parts = split_modifiers(opcode);
    const auto has = [&](std::string_view part) { return std::ranges::find(parts, part) != parts.end(); };
    const bool reduces_in_bulk = has("cp") && has("reduce");
    if (base == "cp" && !reduces_in_bulk) return;
    const bool hidden_type = reduces_in_bulk && has("tensor");
    if (!hidden_type && std::ranges::none_of(parts, is_float_type)) return;
    if (base == "cp" && has("add") && (hidden_type || has("f32"))) {
      if (rules_.ordered_reduction) return;
      report(
          fmt::format("{}: adds floating-point numbers in an order that changes between runs; only a plan with "
                      "`ordered_reduction` may",
                      opcode));
      return;
    }
    report(fmt::format("{}: a floating-point reduction whose order changes between runs", opcode));
  }

  // Product of the numbers that follow a directive, "128, 1, 1".
  int64_t product_after(size_t index) const {
    int64_t product = 1;
    for (size_t i = index + 1; i < tokens_.size(); i += 2) {
      product *= integer_of(tokens_[i].text);
      if (i + 1 >= tokens_.size() || tokens_[i + 1].text != ",") break;
    }
    return product;
  }

  // A variable's declaration after its state space: ".align 8 .b8 name[16][4]" up to one of the characters of `ends`.
  Declaration read_declaration(size_t index, std::string_view ends) const {
    Declaration declaration;
    int64_t count = 1, element = 0, vector = 1;
    for (; index < tokens_.size(); ++index) {
      const std::string& text = tokens_[index].text;
      if (text.size() == 1 && ends.find(text[0]) != ends.npos) break;
      if (text == ".align") {
        ++index;
      } else if (text == ".v2" || text == ".v4") {
        vector = text[2] - '0';
      } else if (text == ".ptr" || text == ".global" || text == ".const" || text == ".shared" || text == ".local") {
        continue;
      } else if (text[0] == '.' && element == 0) {
        element = type_bytes(text);
      } else if (text == "[" && index + 1 < tokens_.size() && tokens_[index + 1].text != "]") {
        count *= integer_of(tokens_[++index].text);
      } else if (text == ",") {
        declaration.bytes += element * vector * count;  // another variable of the same type
        count = 1;
      }
    }
    declaration.bytes += element * vector * count;
    declaration.end = index;
    return declaration;
  }

  void read_entry() {
    facts_.entries.push_back(next(1));
    if (facts_.entries.size() > 1 || next(2) != "(") return;
    for (size_t index = at_ + 3; index < tokens_.size() && tokens_[index].text == ".param"; ++index) {
      const Declaration parameter = read_declaration(index + 1, ",)");
      facts_.param_bytes += parameter.bytes;
      ++facts_.params;
      index = parameter.end;
    }
  }

  void check_facts() {
    const auto report_file = [&](std::string message) { findings_.push_back({0, std::move(message)}); };
    if (facts_.entries.size() != 1) {
      report_file(fmt::format("expected exactly one entry, got {}: {}", facts_.entries.size(),
                              fmt::join(facts_.entries, ", ")));
    } else {
      if (rules_.symbol && facts_.entries[0] != *rules_.symbol) {
        report_file(fmt::format("expected the entry {}, got {}", *rules_.symbol, facts_.entries[0]));
      }
      if (facts_.params != 1) {
        report_file(fmt::format("expected one parameter, the parameter struct, got {}", facts_.params));
      }
    }
    if (rules_.target && facts_.target != *rules_.target) {
      report_file(fmt::format("expected .target {}, got {}", *rules_.target, facts_.target));
    }
    if (rules_.block && facts_.max_threads && *facts_.max_threads != *rules_.block) {
      report_file(
          fmt::format("launch bounds of {} threads, but the plan launches {}", *facts_.max_threads, *rules_.block));
    }
    if (facts_.local_bytes > rules_.local_bytes) {
      report_file(fmt::format("declares {} bytes of local memory a thread; allowed: {}", facts_.local_bytes,
                              rules_.local_bytes));
    }
  }

  const LintRules& rules_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  PtxFacts facts_;
  std::vector<LintFinding> findings_;
};

}  // namespace

LintReport lint_ptx(std::string_view ptx, const LintRules& rules) { return Linter(ptx, rules).run(); }

std::string describe_finding(const LintFinding& finding) {
  return finding.line == 0 ? finding.message : fmt::format("line {}: {}", finding.line, finding.message);
}

}  // namespace stratum::gen
