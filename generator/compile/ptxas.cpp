#include "generator/compile/ptxas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include "common/file.h"
#include "generator/compile/child_process.h"
#include "generator/compile/tool_version.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {
namespace {

// The number right before or after a phrase, if the line has it.
std::optional<int32_t> number_before(const std::string& line, std::string_view phrase) {
  const size_t end = line.find(phrase);
  if (end == line.npos) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  return begin == end ? std::nullopt : std::optional(std::atoi(line.c_str() + begin));
}

std::optional<int32_t> number_after(const std::string& line, std::string_view phrase) {
  const size_t at = line.find(phrase);
  if (at == line.npos || !std::isdigit(static_cast<unsigned char>(line[at + phrase.size()]))) return std::nullopt;
  return std::atoi(line.c_str() + at + phrase.size());
}

// "ptxas warning : ..." or advice with a number, "ptxas info    : (C7511) ...".
bool is_warning(const std::string& line) {
  return line.starts_with("ptxas warning") || (line.starts_with("ptxas info") && line.find(": (C") != line.npos);
}

}  // namespace

std::string ptxas_version(const std::filesystem::path& program) {
  const ChildResult child = run_child({program.string(), "--version"}, ".");
  std::string version = find_tool_version(child.output);
  if (version.empty()) {
    throw ToolchainError(fmt::format("{} --version printed no version: {}", program.string(), child.output));
  }
  return version;
}

PtxasResult run_ptxas(const std::filesystem::path& program, const std::string& ptx,
                      const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  replace_file(folder.path() / "kernel.ptx", ptx);
  std::vector<std::string> arguments = {program.string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"-o", "kernel.cubin", "kernel.ptx"});
  ChildResult child = run_child(arguments, folder.path());
  if (child.signal != 0) {
    throw ToolchainError(fmt::format("{}: ended by signal {} ({})\n{}", program.string(), child.signal,
                                     ::strsignal(child.signal), child.output));
  }
  PtxasResult result{.ok = child.exit_code == 0, .cubin = {}, .log = std::move(child.output)};
  if (result.ok) result.cubin = read_file(folder.path() / "kernel.cubin");
  return result;
}

PtxasReport parse_ptxas_log(const std::string& log, const std::string& symbol) {
  constexpr std::string_view kProperties = "Function properties for ";
  PtxasReport report;
  bool has_stack = false, has_registers = false;
  std::string function;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (is_warning(line)) report.warnings.push_back(line);
    if (const size_t at = line.find(kProperties); at != line.npos) function = line.substr(at + kProperties.size());
    if (const auto stack = number_before(line, " bytes stack frame")) {
      // Functions that were not inlined report for themselves; the kernel's own frame is the one that counts, their
      // spills count all the same.
      report.spill_bytes += number_before(line, " bytes spill stores").value_or(0);
      report.spill_bytes += number_before(line, " bytes spill loads").value_or(0);
      if (function == symbol) {
        report.local_bytes = std::max(report.local_bytes, *stack);
        has_stack = true;
      }
    }
    if (const auto registers = number_after(line, "Used ")) {
      report.registers = *registers;
      report.static_shared_bytes = number_before(line, " bytes smem").value_or(0);
      report.local_bytes =
          std::max(report.local_bytes, number_before(line, " bytes cumulative stack size").value_or(0));
      has_registers = true;
    }
  }
  if (!has_stack || !has_registers) {
    throw ToolchainError(fmt::format("ptxas -v did not report the resources of {}:\n{}", symbol, log));
  }
  return report;
}

}  // namespace stratum::gen
