#include "generator/compile/compile_kernel.h"

#include <fmt/format.h>

#include "common/file.h"
#include "common/input_error.h"
#include "generator/compile/ptx_lint.h"
#include "generator/compile/ptxas.h"
#include "generator/compile/toolchain_error.h"
#include "generator/plan/arch.h"

namespace stratum::gen {
namespace {

// ptxas serialised wgmma: the kernel is right, but at a fraction of its speed. Which number goes with which reason
// changes between versions of ptxas, so the words count too.
constexpr const char* kFatalWarnings[] = {"(C7512)", "(C7514)", "wgmma.mma_async instructions are serialized"};

// What happened to one kernel, kept on disk however its compilation ends.
class KernelLog {
 public:
  KernelLog(const std::filesystem::path& folder, const std::string& name)
      : name_(name), path_(folder / (name + ".log")), ptx_path_(folder / (name + ".ptx")) {
    std::error_code ignored;  // of an earlier failure; there may be none
    std::filesystem::remove(ptx_path_, ignored);
  }
  ~KernelLog() {
    try {
      if (!saved_) save();
    } catch (const InputError&) {
      // The exception under way says more than that its log could not be written.
    }
  }
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  void add(std::string_view stage, std::string_view text) {
    if (!text.empty()) text_ += fmt::format("== {}\n{}{}", stage, text, text.ends_with('\n') ? "" : "\n");
  }

  void save() {
    replace_file(path_, text_);
    saved_ = true;
  }

  // Keeps the PTX in a file of its own, so that the line numbers of findings are its lines.
  void keep_ptx(const std::string& ptx) {
    replace_file(ptx_path_, ptx);
    kept_ += fmt::format(", its PTX as {}", ptx_path_.string());
  }

  [[noreturn]] void fail(std::string_view reason) {
    save();
    throw InputError(fmt::format("{}: {}\n{}{}", name_, reason, text_, where()));
  }

  // A compiler that failed for a reason of its own.
  [[noreturn]] void fail(const ToolchainError& error) {
    add("toolchain", error.what());
    save();
    throw ToolchainError(fmt::format("{}: {}\n{}", name_, error.what(), where()));
  }

 private:
  std::string where() const { return fmt::format("(kept as {}{})", path_.string(), kept_); }

  std::string name_;
  std::filesystem::path path_, ptx_path_;
  std::string text_, kept_;
  bool saved_ = false;
};

std::string join_lines(const std::vector<std::string>& lines) { return fmt::format("{}", fmt::join(lines, "\n")); }

// Why a kernel's resources break its plan; empty if they don't.
std::vector<std::string> resource_problems(const KernelSpec& spec, const KernelFacts& facts) {
  const Arch& arch = *find_arch(spec.key.arch);
  const int64_t allowed = spec.allow_spills ? spec.allow_spills->bytes : 0;
  const int64_t shared_bytes = int64_t{spec.shared_bytes} + facts.static_shared_bytes;
  std::vector<std::string> problems;
  if (facts.local_bytes > allowed || (facts.spill_bytes > 0 && allowed == 0)) {
    problems.push_back(fmt::format(
        "{} bytes of local memory a thread, {} bytes of spills; accepted: {}", facts.local_bytes, facts.spill_bytes,
        allowed == 0 ? "none without `allow_spills` in the plan" : fmt::format("up to {} (`allow_spills`)", allowed)));
  }
  if (shared_bytes > arch.max_shared_bytes) {
    problems.push_back(
        fmt::format("{} + {} bytes of dynamic and static shared memory a block; accepted on {}: up to {}",
                    spec.shared_bytes, facts.static_shared_bytes, arch.name, arch.max_shared_bytes));
  } else if (warps_per_sm(arch, facts.registers, shared_bytes, spec.block) == 0) {
    problems.push_back(fmt::format("{} threads of {} registers do not fit an SM", spec.block, facts.registers));
  }
  return problems;
}

CompiledKernel compile(const Toolchain& toolchain, const BuildInputs& inputs, KernelLog& log) {
  const KernelSpec& spec = inputs.spec;
  CompiledKernel kernel;

  NvrtcResult compiled =
      toolchain.nvrtc.compile(spec.name, inputs.source.text, inputs.source.headers, inputs.nvrtc_options);
  log.add("NVRTC", compiled.log);
  if (!compiled.ok) log.fail(fmt::format("{} does not compile", spec.source));
  kernel.ptx = std::move(compiled.ptx);
  kernel.warnings = compiled.log;

  const LintReport lint = lint_ptx(kernel.ptx, lint_rules(spec));
  if (!lint.findings.empty()) {
    for (const LintFinding& finding : lint.findings) log.add("lint", describe_finding(finding));
    log.keep_ptx(kernel.ptx);
    log.fail(fmt::format("its PTX breaks the rules ({})", spec.place));
  }

  PtxasResult assembled = run_ptxas(toolchain.ptxas, kernel.ptx, inputs.ptxas_options);
  log.add("ptxas", assembled.log);
  if (!assembled.ok) {
    log.keep_ptx(kernel.ptx);
    log.fail(fmt::format("ptxas refuses the PTX of {}", spec.source));
  }
  kernel.cubin = std::move(assembled.cubin);
  const PtxasReport report = parse_ptxas_log(assembled.log, spec.name);
  for (const char* warning : kFatalWarnings) {
    if (assembled.log.find(warning) != std::string::npos) log.fail(fmt::format("ptxas warns: {}", warning));
  }
  if (!report.warnings.empty()) kernel.warnings += join_lines(report.warnings) + "\n";
  kernel.facts = {.param_bytes = lint.facts.param_bytes,
                  .cluster = static_cast<int32_t>(lint.facts.cluster),
                  .registers = report.registers,
                  .spill_bytes = report.spill_bytes,
                  .local_bytes = report.local_bytes,
                  .static_shared_bytes = report.static_shared_bytes};
  if (const auto problems = resource_problems(spec, kernel.facts); !problems.empty()) {
    log.fail(fmt::format("{} ({})", join_lines(problems), spec.place));
  }
  return kernel;
}

}  // namespace

CompiledKernel compile_kernel(const Toolchain& toolchain, const BuildInputs& inputs,
                              const std::filesystem::path& logs) {
  KernelLog log(logs, inputs.spec.name);
  try {
    CompiledKernel kernel = compile(toolchain, inputs, log);
    log.save();
    return kernel;
  } catch (const ToolchainError& error) {
    log.fail(error);
  }
}

}  // namespace stratum::gen
