// stratum-gen: JSON tile plans to a pack of cubins.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/input_error.h"
#include "generator/command/commands.h"
#include "generator/command/print_json.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {
namespace {

constexpr const char* kToolchainHelp = "auto, system, wheels, or a folder with a CUDA toolkit or Python packages";

// Runs a command and turns what it throws into a message and an exit code.
int run_guarded(bool json, const std::function<int()>& command) {
  const auto fail = [&](const char* kind, const std::string& message, int code) {
    if (json) {
      const nlohmann::ordered_json result = {{"ok", false}, {"error", {{"kind", kind}, {"message", message}}}};
      print_json(result);
    }
    fmt::print(stderr, "stratum-gen: {}\n", message);
    return code;
  };
  try {
    return command();
  } catch (const ToolchainError& error) {
    return fail("toolchain", error.what(), kToolchainFailed);
  } catch (const std::exception& error) {
    return fail("input", error.what(), kInputWrong);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Turns JSON tile plans into a pack of GPU kernels.", "stratum-gen");
  app.set_version_flag("--version", STRATUM_VERSION);
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 something in the input is wrong, 2 usage, 3 the toolchain failed.");

  int code = kDone;
  const auto add_json = [](CLI::App* command, bool& json) {
    command->add_flag("--json", json, "Print the result as data");
  };
  const auto add_sources = [](CLI::App* command, auto& options) {
    command->add_option("--templates", options.templates, "Folder of kernel families")->capture_default_str();
    command
        ->add_option("--plans", options.plans, "Plan file or folder of plans, repeatable; instead of TEMPLATES/plans")
        ->allow_extra_args(false);
    command->add_option("--toolchain", options.toolchain, kToolchainHelp)->capture_default_str();
  };
  const auto add_jobs = [](CLI::App* command, int& jobs) {
    command->add_option("-j,--jobs", jobs, "Kernels compiled at once; one a core by default")
        ->check(CLI::Range(1, 1024));
  };
  const auto add_pack = [](CLI::App* command, auto& options) {
    command->add_option("--pack", options.pack, "Folder of the pack")->capture_default_str();
  };

  BuildOptions build;
  CLI::App* build_command = app.add_subcommand("build", "Compile what changed and publish the pack");
  add_sources(build_command, build);
  build_command->add_option("-o,--out", build.out, "Folder of the pack")->capture_default_str();
  build_command->add_option("--cache", build.cache, "Folder of the build cache")->capture_default_str();
  build_command->add_option("--only", build.only, "Build the kernels whose name matches this pattern; keep the others");
  add_jobs(build_command, build.jobs);
  add_json(build_command, build.json);
  build_command->callback([&] { code = run_guarded(build.json, [&] { return run_build(build); }); });

  ListOptions list;
  CLI::App* list_command = app.add_subcommand("list", "Names and resources of a pack's kernels");
  add_pack(list_command, list);
  list_command->add_option("filters", list.filters, "Patterns on names, such as 'gated_fwd_*'");
  add_json(list_command, list.json);
  list_command->callback([&] { code = run_guarded(list.json, [&] { return run_list(list); }); });

  ShowOptions show;
  CLI::App* show_command = app.add_subcommand("show", "One kernel: key, plan, resources, code");
  add_pack(show_command, show);
  show_command->add_option("name", show.name, "The kernel's name")->required();
  show_command->add_flag("--ptx", show.ptx, "Print its PTX");
  show_command->add_flag("--sass", show.sass, "Print its machine code");
  add_json(show_command, show.json);
  show_command->callback([&] { code = run_guarded(show.json, [&] { return run_show(show); }); });

  LintOptions lint;
  CLI::App* lint_command = app.add_subcommand("lint", "Check the rules of PTX");
  add_pack(lint_command, lint);
  lint_command->add_option("files", lint.files, "PTX files; without one, the whole pack");
  add_json(lint_command, lint.json);
  lint_command->callback([&] { code = run_guarded(lint.json, [&] { return run_lint(lint); }); });

  VerifyOptions verify;
  CLI::App* verify_command = app.add_subcommand("verify", "Rebuild every kernel and compare it with the pack");
  add_sources(verify_command, verify);
  add_pack(verify_command, verify);
  verify_command->add_option("--cache", verify.cache, "Folder of the build cache, for logs")->capture_default_str();
  verify_command->add_flag("--keys", verify.keys, "Compare build keys and hashes only: no compiler, a second");
  add_jobs(verify_command, verify.jobs);
  add_json(verify_command, verify.json);
  verify_command->callback([&] { code = run_guarded(verify.json, [&] { return run_verify(verify); }); });

  DoctorOptions doctor;
  CLI::App* doctor_command = app.add_subcommand("doctor", "What a bug report needs");
  add_sources(doctor_command, doctor);
  add_pack(doctor_command, doctor);
  add_json(doctor_command, doctor.json);
  doctor_command->callback([&] { code = run_guarded(doctor.json, [&] { return run_doctor(doctor); }); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return code;
}

}  // namespace
}  // namespace stratum::gen

int main(int argc, char** argv) { return stratum::gen::run(argc, argv); }
