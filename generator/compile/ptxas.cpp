#include "generator/compile/ptxas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <regex>
#include <sstream>

#include "common/file.h"
#include "generator/compile/child_process.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {
namespace {

int32_t number(const std::ssub_match& match) { return match.matched ? std::stoi(match.str()) : 0; }

}  // namespace

std::string ptxas_version(const std::filesystem::path& program) {
  const ChildResult child = run_child({program.string(), "--version"}, ".");
  std::smatch match;
  if (!std::regex_search(child.output, match, std::regex(R"(release [0-9.]+, V([0-9.]+))"))) {
    throw ToolchainError(fmt::format("{} --version printed no version: {}", program.string(), child.output));
  }
  return match[1];
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
  static const std::regex kProperties(R"(Function properties for (\S+))");
  static const std::regex kStack(R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)");
  static const std::regex kUsed(R"(Used (\d+) registers)");
  static const std::regex kCumulative(R"((\d+) bytes cumulative stack size)");
  static const std::regex kShared(R"((\d+) bytes smem)");

  PtxasReport report;
  bool has_stack = false, has_registers = false;
  std::string function;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with("ptxas warning")) report.warnings.push_back(line);
    if (std::regex_search(line, match, kProperties)) function = match[1];
    if (std::regex_search(line, match, kStack)) {
      // Functions that were not inlined report for themselves; the kernel's own frame is the one that counts, their
      // spills count all the same.
      report.spill_bytes += number(match[2]) + number(match[3]);
      if (function == symbol) {
        report.local_bytes = std::max(report.local_bytes, number(match[1]));
        has_stack = true;
      }
    }
    if (std::regex_search(line, match, kUsed)) {
      report.registers = number(match[1]);
      has_registers = true;
      if (std::regex_search(line, match, kShared)) report.static_shared_bytes = number(match[1]);
      if (std::regex_search(line, match, kCumulative)) {
        report.local_bytes = std::max(report.local_bytes, number(match[1]));
      }
    }
  }
  if (!has_stack || !has_registers) {
    throw ToolchainError(fmt::format("ptxas -v did not report the resources of {}:\n{}", symbol, log));
  }
  return report;
}

}  // namespace stratum::gen
