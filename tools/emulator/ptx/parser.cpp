// Recursive descent over the tokens. A brace opens a scope of names only where a statement begins; elsewhere it is a
// vector. Names of inner scopes are made unique by a suffix, so that what follows needs no scopes.
#include "ptx/parser.h"

#include <bit>
#include <cstdlib>
#include <optional>

#include "ptx/lexer.h"

namespace stratum::emulator::ptx {
namespace {

// Untrusted text must not make the parser take all memory or the whole stack.
constexpr uint64_t kMostRegisters = 1 << 20, kMostBytes = 1 << 30;
constexpr size_t kDeepest = 100;

struct Scope {
  std::map<std::string, std::string> registers, labels;  // as written → unique
};

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Module module() {
    while (peek().type != Token::End) {
      const Token& token = peek();
      if (token.text == ".version" || token.text == ".address_size") {
        next(), next();
      } else if (token.text == ".target") {
        next();
        module_.target = next().text;
        while (accept(",")) next();
      } else if (token.text == ".visible" || token.text == ".extern" || token.text == ".weak" ||
                 token.text == ".common") {
        next();
      } else if (token.text == ".entry") {
        next();
        entry();
      } else if (token.text == ".shared" || token.text == ".global" || token.text == ".const") {
        module_.variables.push_back(variable());
      } else {
        fail("expected a directive, got '" + token.text + "'");
      }
    }
    return std::move(module_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { throw ParseError(peek().line, text); }
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool is(std::string_view mark) const { return peek().type == Token::Mark && peek().text == mark; }
  bool accept(std::string_view mark) {
    if (!is(mark)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view mark) {
    if (!accept(mark)) fail("expected '" + std::string(mark) + "', got '" + peek().text + "'");
  }
  std::string word() {
    if (peek().type != Token::Word) fail("expected a name, got '" + peek().text + "'");
    return next().text;
  }
  // The word must be `.something`; returns something.
  std::string dotted() {
    const std::string text = word();
    if (text[0] != '.' || text.size() == 1) fail("expected a directive or type, got '" + text + "'");
    return text.substr(1);
  }

  uint64_t number_up_to(uint64_t most) {
    const uint64_t number = integer();
    if (number > most) fail("expected at most " + std::to_string(most) + ", got " + std::to_string(number));
    return number;
  }
  uint64_t alignment() {
    const uint64_t align = number_up_to(kMostBytes);
    if (!std::has_single_bit(align)) fail("expected a power of two, got " + std::to_string(align));
    return align;
  }

  // The type of a variable or parameter: how many bytes it has.
  uint64_t type_bytes() {
    const std::string type = dotted();
    const std::string digits = type.substr(1);
    if (digits != "8" && digits != "16" && digits != "32" && digits != "64") fail("unknown type '." + type + "'");
    return std::strtoull(digits.c_str(), nullptr, 10) / 8;
  }

  // Up to a mark that must come.
  void skip_to(std::string_view mark) {
    while (!is(mark) && peek().type != Token::End) next();
    expect(mark);
  }

  uint64_t integer() {
    const bool negative = accept("-");
    if (peek().type != Token::Number) fail("expected a number, got '" + peek().text + "'");
    const std::string text = next().text;
    char* end = nullptr;
    const uint64_t value = std::strtoull(text.c_str(), &end, 0);
    if (*end != '\0' && std::string_view(end) != "U") fail("expected an integer, got '" + text + "'");
    return negative ? -value : value;
  }

  // .space [.align N] .type name[count] [= initialiser];
  Variable variable() {
    Variable found{.space = dotted(), .name = ""};
    const bool aligned = peek().text == ".align";
    if (aligned) next();
    const uint64_t align = aligned ? alignment() : 0;
    const uint64_t element = type_bytes();
    found.align = aligned ? align : element;
    found.name = word();
    found.bytes = element;
    if (accept("[")) {
      found.bytes = is("]") ? 0 : element * number_up_to(kMostBytes);
      expect("]");
    }
    if (!is("=") && !is(";")) fail("expected '=' or ';', got '" + peek().text + "'");
    skip_to(";");  // what constants of the source are initialised with
    return found;
  }

  void entry() {
    Entry& entry = module_.entries.emplace_back();
    entry_ = &entry;
    scopes_.assign(1, {});
    entry.name = word();
    if (accept("(")) {
      while (!accept(")")) {
        if (dotted() != "param") fail("expected .param");
        const bool aligned = peek().text == ".align";
        if (aligned) next();
        uint64_t align = aligned ? alignment() : 0;
        const uint64_t element = type_bytes();
        Parameter parameter{.name = word(), .bytes = element};
        if (accept("[")) {
          parameter.bytes = element * number_up_to(kMostBytes);
          expect("]");
        }
        if (!aligned) align = element;
        parameter.offset = (entry.parameter_bytes + align - 1) / align * align;
        entry.parameter_bytes = parameter.offset + parameter.bytes;
        if (entry.parameter_bytes > kMostBytes)
          fail("the parameters have " + std::to_string(entry.parameter_bytes) + " bytes");
        entry.parameters.push_back(parameter);
        if (!accept(",") && !is(")")) fail("expected ',' or ')', got '" + peek().text + "'");
      }
    }
    skip_to("{");  // .maxntid, .minnctapersm, …: the driver's affair
    while (!accept("}")) statement();
  }

  void statement() {
    if (accept("{")) {
      if (scopes_.size() == kDeepest) fail("scopes are nested too deeply");
      scopes_.emplace_back();
      ++scopes_opened_;
      declare_labels();
      while (!accept("}")) statement();
      scopes_.pop_back();
    } else if (peek().text == ".reg") {
      registers();
    } else if (peek().text == ".shared") {
      entry_->variables.push_back(variable());
    } else if (peek().text == ".pragma" || peek().text == ".loc" || peek().text == ".file") {
      skip_to(";");
    } else if (peek().type == Token::Word && peek(1).type == Token::Mark && peek(1).text == ":") {
      const std::string name = unique_label(word());
      expect(":");
      if (!entry_->labels.try_emplace(name, entry_->instructions.size()).second) fail("a second label '" + name + "'");
    } else if (!accept(";")) {
      instruction();
    }
  }

  // .reg .type %name<count>, name, …;
  void registers() {
    next();
    const std::string type = dotted();
    do {
      const std::string name = word();
      if (accept("<")) {
        const uint64_t count = number_up_to(kMostRegisters - std::min(declared_, kMostRegisters));
        expect(">");
        for (uint64_t i = 0; i < count; ++i) declare(name + std::to_string(i), type);
      } else {
        declare(name, type);
      }
    } while (accept(","));
    expect(";");
  }

  std::string suffixed(const std::string& name) const {
    return scopes_.size() == 1 ? name : name + "@" + std::to_string(scopes_opened_);
  }

  void declare(const std::string& name, const std::string& type) {
    ++declared_;
    const std::string unique = suffixed(name);
    scopes_.back().registers[name] = unique;
    entry_->registers[unique] = type;
  }

  // Labels of a scope are known from its beginning: a branch may go forward.
  void declare_labels() {
    int depth = 0;
    for (size_t i = at_; i + 1 < tokens_.size(); ++i) {
      if (tokens_[i].text == "{") ++depth;
      if (tokens_[i].text == "}" && depth-- == 0) break;
      const bool label = tokens_[i].type == Token::Word && tokens_[i + 1].text == ":";
      if (depth == 0 && label) scopes_.back().labels[tokens_[i].text] = suffixed(tokens_[i].text);
    }
  }

  std::optional<std::string> register_named(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->registers.find(name); found != scope->registers.end()) return found->second;
    return std::nullopt;
  }

  std::string unique_label(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->labels.find(name); found != scope->labels.end()) return found->second;
    return name;
  }

  void instruction() {
    Instruction found;
    if (accept("@")) {
      found.guard_negated = accept("!");
      const auto guard = register_named(word());
      if (!guard) fail("the guard isn't a register");
      found.guard = *guard;
    }
    found.line = peek().line;
    found.opcode = word();
    const bool branch = found.opcode.starts_with("bra");
    bool more = !is(";");
    while (more) {
      found.operands.push_back(branch ? Operand{Kind::Label, unique_label(word())} : operand());
      if (accept("|")) {  // a pair of destinations
        Operand pair{Kind::Vector, ""};
        pair.elements = {found.operands.back(), operand()};
        found.operands.back() = pair;
      }
      more = accept(",");
      if (!more && !is(";")) fail("expected ',' or ';', got '" + peek().text + "'");
    }
    expect(";");
    entry_->instructions.push_back(std::move(found));
  }

  Operand operand() {
    if (accept("{")) {
      Operand vector{Kind::Vector, ""};
      do {
        if (is("{")) fail("a vector in a vector");
        vector.elements.push_back(operand());
      } while (accept(","));
      expect("}");
      return vector;
    }
    if (accept("[")) {
      Operand address{Kind::Address, ""};
      if (peek().type == Token::Word) {
        const std::string name = word();
        address.name = register_named(name).value_or(name);
        if (accept("+") || is("-")) address.offset = static_cast<int64_t>(integer());
      } else {
        address.offset = static_cast<int64_t>(integer());
      }
      if (accept(",")) {  // coordinates in a tensor
        if (!is("{")) fail("expected coordinates, got '" + peek().text + "'");
        address.elements = operand().elements;
      }
      expect("]");
      return address;
    }
    if (accept("!")) {
      const auto name = register_named(word());
      if (!name) fail("expected a predicate after '!'");
      Operand negated{Kind::Register, *name};
      negated.negated = true;
      return negated;
    }
    if (peek().type == Token::Number || is("-")) return immediate();
    const std::string name = word();
    if (const auto found = register_named(name)) return {Kind::Register, *found};
    if (name[0] == '%') return {Kind::Special, name};
    return {Kind::Symbol, name};
  }

  // 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX are the bits of a float.
  Operand immediate() {
    Operand found{Kind::Immediate, ""};
    const std::string& text = peek().text;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
      found.bits = std::strtoull(text.c_str() + 2, nullptr, 16);
      found.is_float = true;
      next();
    } else {
      found.bits = integer();
    }
    return found;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module module_;
  Entry* entry_ = nullptr;
  std::vector<Scope> scopes_;
  int scopes_opened_ = 0;
  uint64_t declared_ = 0;  // registers
};

}  // namespace

Module parse(std::string_view source) { return Parser(source).module(); }

}  // namespace stratum::emulator::ptx
