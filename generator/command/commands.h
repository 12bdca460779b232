// The commands of stratum-gen. Each prints its result to stdout (as data with --json), progress and errors to stderr,
// and returns an exit code. What is wrong throws: InputError, or ToolchainError.
#pragma once

#include "generator/command/options.h"

namespace stratum::gen {

enum ExitCode { kDone = 0, kInputWrong = 1, kUsage = 2, kToolchainFailed = 3 };

int run_build(const BuildOptions& options);
int run_list(const ListOptions& options);
int run_show(const ShowOptions& options);
int run_lint(const LintOptions& options);
int run_verify(const VerifyOptions& options);
int run_doctor(const DoctorOptions& options);

}  // namespace stratum::gen
