#include "generator/plan/template_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/file.h"
#include "common/input_error.h"
#include "generator/plan/arch.h"

namespace stratum::gen {
namespace {

bool is_hole_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

size_t line_of(std::string_view text, size_t at) {
  return 1 + static_cast<size_t>(std::ranges::count(text.substr(0, at), '\n'));
}

// The text with comments blanked, newlines kept. Quotes are followed so that "//" in a string is no comment.
std::string without_comments(const std::string& text) {
  std::string result = text;
  for (size_t at = 0; at < result.size();) {
    size_t end = at + 1;
    if (result[at] == '"' || result[at] == '\'') {
      while (end < result.size() && result[end] != result[at] && result[end] != '\n') {
        end += result[end] == '\\' ? 2 : 1;
      }
      ++end;
    } else if (result.compare(at, 2, "//") == 0) {
      end = std::min(result.find('\n', at), result.size());
      std::fill(result.begin() + static_cast<ptrdiff_t>(at), result.begin() + static_cast<ptrdiff_t>(end), ' ');
    } else if (result.compare(at, 2, "/*") == 0) {
      const size_t close = result.find("*/", at + 2);
      end = close == result.npos ? result.size() : close + 2;
      for (size_t i = at; i < end; ++i) {
        if (result[i] != '\n') result[i] = ' ';
      }
    }
    at = end;
  }
  return result;
}

}  // namespace

Holes holes_of(const KernelSpec& spec) {
  Holes holes;
  for (const auto& [field, value] : spec.tile) holes[field] = std::to_string(value);
  holes["name"] = spec.name;
  holes["arch"] = find_arch(spec.key.arch)->digits();
  holes["dtype"] = spec.key.dtype;
  holes["head_dim"] = std::to_string(spec.key.head_dim);
  holes["gate_dim"] = std::to_string(spec.key.gate_dim);
  holes["group"] = std::to_string(spec.key.group);
  holes["flags"] = fmt::format("{}", fmt::join(spec.key.flags, ", "));
  holes["block"] = std::to_string(spec.block);
  holes["shared_bytes"] = std::to_string(spec.shared_bytes);
  return holes;
}

std::string fill_holes(const std::string& text, const Holes& holes, const std::vector<std::string>& required,
                       const std::string& file) {
  std::string filled;
  std::set<std::string> used;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '@') {
      while (end < text.size() && is_hole_letter(text[end])) ++end;
    }
    if (text[at] != '@' || end == text.size() || text[end] != '@' || end == at + 1) {
      filled += text[at++];
      continue;
    }
    const std::string name = text.substr(at + 1, end - at - 1);
    const auto value = holes.find(name);
    if (value == holes.end()) {
      std::vector<std::string> known;
      for (const auto& hole : holes) known.push_back(hole.first);
      throw InputError(fmt::format("{}:{}: no value for the hole @{}@; there are {}", file, line_of(text, at), name,
                                   fmt::join(known, ", ")));
    }
    filled += value->second;
    used.insert(name);
    at = end + 1;
  }
  for (const std::string& name : required) {
    if (!used.contains(name)) {
      throw InputError(
          fmt::format("{}: the tile field {} has no hole @{}@: plans would set what nothing reads", file, name, name));
    }
  }
  return filled;
}

std::vector<std::string> scan_includes(const std::string& text, const std::string& file) {
  std::vector<std::string> names;
  const std::string code = without_comments(text);
  size_t number = 0;
  for (size_t begin = 0; begin < code.size();) {
    ++number;
    const size_t end = std::min(code.find('\n', begin), code.size());
    std::string_view line(code.data() + begin, end - begin);
    begin = end + 1;
    const auto skip_spaces = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    skip_spaces();
    if (!line.starts_with('#')) continue;
    line.remove_prefix(1);
    skip_spaces();
    if (!line.starts_with("include")) continue;
    line.remove_prefix(7);
    skip_spaces();
    const size_t close = line.starts_with('"') ? line.find('"', 1) : line.npos;
    if (close == line.npos) {
      throw InputError(
          fmt::format("{}:{}: expected #include \"...\" with a path relative to the templates folder, got "
                      "#include {}",
                      file, number, line));
    }
    names.emplace_back(line.substr(1, close - 1));
  }
  return names;
}

const std::string& SourceTree::text(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = texts_.find(name); found != texts_.end()) return found->second;
  // One spelling a file, so that its name in the build key and in the compiler's eyes is the same.
  const std::filesystem::path path(name);
  if (path.is_absolute() || path.lexically_normal() != path || *path.begin() == "..") {
    throw InputError(fmt::format("{}: expected a plain path relative to {}", name, root_.string()));
  }
  return texts_.emplace(name, read_file(root_ / path)).first->second;
}

std::map<std::string, std::string> SourceTree::headers_of(const std::string& text, const std::string& file) {
  std::map<std::string, std::string> headers;
  std::vector<std::pair<std::string, std::string>> pending;  // (name, includer)
  const auto scan = [&](const std::string& source, const std::string& source_name) {
    for (std::string& name : scan_includes(source, source_name)) pending.emplace_back(std::move(name), source_name);
  };
  scan(text, file);
  while (!pending.empty()) {
    const auto [name, includer] = pending.back();
    pending.pop_back();
    if (headers.contains(name)) continue;
    try {
      headers.emplace(name, this->text(name));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: cannot include \"{}\": {}", includer, name, error.what()));
    }
    scan(headers.at(name), name);
  }
  return headers;
}

KernelSource read_source(SourceTree& tree, const KernelSpec& spec) {
  KernelSource source;
  source.template_text = tree.text(spec.source);
  source.holes = holes_of(spec);
  std::vector<std::string> required;
  for (const auto& [field, value] : spec.tile) required.push_back(field);
  source.text = fill_holes(source.template_text, source.holes, required, spec.source);
  source.headers = tree.headers_of(source.text, spec.source);
  return source;
}

}  // namespace stratum::gen
