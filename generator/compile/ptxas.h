// ptxas, NVIDIA's PTX assembler, as a child process, and what it reports of a kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stratum::gen {

struct PtxasReport {
  int32_t registers = 0;    // a thread
  int32_t spill_bytes = 0;  // stores + loads
  int32_t local_bytes = 0;  // a thread's stack
  int32_t static_shared_bytes = 0;
  std::vector<std::string>
      warnings;  // lines that start with "ptxas warning", and numbered advice: "ptxas info : (C7511)"
};

struct PtxasResult {
  bool ok = false;
  std::string cubin;  // empty unless ok
  std::string log;    // everything it printed
};

// "13.0.88" of a ptxas. Throws ToolchainError if the program does not start or says nothing like it.
std::string ptxas_version(const std::filesystem::path& program);

// Assembles PTX. A complaint about the PTX is a result with a log; a ptxas that does not start or is ended by a signal
// throws ToolchainError. No path enters the cubin.
PtxasResult run_ptxas(const std::filesystem::path& program, const std::string& ptx,
                      const std::vector<std::string>& options);

// Reads what `ptxas -v` printed for a file with one kernel. Throws ToolchainError, with the log, if the usage is not in
// it: a missing number must not become a zero.
PtxasReport parse_ptxas_log(const std::string& log, const std::string& symbol);

}  // namespace stratum::gen
