#include "ptx/lexer.h"

#include <algorithm>
#include <cctype>

#include "ptx/module.h"

namespace stratum::emulator::ptx {
namespace {

bool begins_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

bool in_word(char c) { return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)) || c == ':'; }

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  std::vector<Token> tokens;
  int line = 1;
  size_t at = 0;
  const auto take = [&](Token::Type type, size_t end) {
    tokens.push_back({type, std::string(source.substr(at, end - at)), line});
    at = end;
  };
  while (at < source.size()) {
    const char c = source[at];
    if (c == '\n') ++line;
    if (c == '\0' || std::isspace(static_cast<unsigned char>(c))) {
      ++at;
    } else if (source.substr(at, 2) == "//") {
      at = std::min(source.find('\n', at), source.size());
    } else if (source.substr(at, 2) == "/*") {
      const size_t end = source.find("*/", at + 2);
      if (end == std::string_view::npos) throw ParseError(line, "a comment doesn't end");
      line += static_cast<int>(std::count(source.begin() + at, source.begin() + end, '\n'));
      at = end + 2;
    } else if (c == '"') {
      const size_t end = source.find('"', at + 1);
      if (end == std::string_view::npos) throw ParseError(line, "a string doesn't end");
      take(Token::Text, end + 1);
    } else if (begins_word(c)) {
      size_t end = at + 1;
      // A colon belongs to a word only inside an opcode (mma's shapes); a label's own is a mark.
      while (end < source.size() && in_word(source[end])) {
        if (source[end] == ':' && source.substr(end, 2) != "::") break;
        end += source[end] == ':' ? 2 : 1;
      }
      take(Token::Word, std::min(end, source.size()));
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      size_t end = at + 1;
      while (end < source.size() && (std::isalnum(static_cast<unsigned char>(source[end])) || source[end] == '.'))
        ++end;
      take(Token::Number, end);
    } else if (std::string_view("{}[](),;:@!|+-=<>").find(c) != std::string_view::npos) {
      take(Token::Mark, at + 1);
    } else {
      throw ParseError(line, std::string("'") + c + "' has no place in PTX");
    }
  }
  tokens.push_back({Token::End, "", line});
  return tokens;
}

}  // namespace stratum::emulator::ptx
