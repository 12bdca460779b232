// stratum-gen as its users run it.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "common/file.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using nlohmann::json;

TEST_CASE("command line: usage errors are 2, help is 0") {
  const Project project;
  CHECK(project.gen({}).exit_code == 2);
  CHECK(project.gen({"bulid"}).exit_code == 2);
  CHECK(project.gen({"build", "--fast"}).exit_code == 2);
  CHECK(project.gen({"build", "--jobs", "0"}).exit_code == 2);
  CHECK(project.gen({"show"}).exit_code == 2);
  CHECK(project.gen({"--help"}).exit_code == 0);
  CHECK(project.gen({"build", "--help"}).exit_code == 0);
  CHECK_THAT(project.gen({"--version"}).out, Contains("0."));
}

TEST_CASE("command line: input errors are 1, as data too") {
  const Project project;
  for (const char* command : {"list", "lint"}) {
    const GenResult result = project.gen({command, "--json"});
    CHECK(result.exit_code == 1);
    CHECK(result.json()["ok"] == false);
    CHECK(result.json()["error"]["kind"] == "input");
    CHECK_THAT(result.err, Contains("cubins/manifest.json: cannot open: No such file or directory"));
  }
  CHECK_THAT(project.gen({"build", "--only", "nothing*"}).err, Contains("no kernel of the plans matches \"nothing*\""));
  CHECK_THAT(project.gen({"build", "--plans", "nowhere"}).err, Contains("nowhere: no such plan file or folder"));
  CHECK_THAT(project.gen({"build", "--templates", "nowhere"}).err, Contains("nowhere: no such templates folder"));
  REQUIRE(::mkfifo((project.root() / "fifo.json").c_str(), 0600) == 0);
  for (const char* plan : {"fifo.json", "/dev/zero"}) {
    CAPTURE(plan);
    CHECK_THAT(project.gen({"build", "--plans", plan}).err,
               Contains(": expected a regular file, got a device, pipe or socket"));
  }
  const GenResult nameless = project.gen({"list", "--pack", "\xff", "--json"});
  CHECK(nameless.exit_code == 1);
  CHECK(nameless.json()["error"]["kind"] == "input");
}

TEST_CASE("command line: no toolchain is 3, and says where it looked and what helps") {
  const Project project;
  const GenResult result = project.gen({"build", "--toolchain", "nowhere", "--json"});
  CHECK(result.exit_code == 3);
  CHECK(result.json()["error"]["kind"] == "toolchain");
  CHECK_THAT(result.err, Contains("exactly NVRTC 13.0.88 and ptxas 13.0.88") && Contains("toolchain.json") &&
                             Contains("nowhere: no such folder") &&
                             Contains("pip install --no-deps nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvcc==13.0.88"));
  // A toolchain of another version is named as what it is.
  project.write("old/bin/ptxas", "#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.93'\n");
  fs::permissions(project.root() / "old/bin/ptxas", fs::perms::owner_all);
  CHECK_THAT(project.gen({"build", "--toolchain", "old"}).err, Contains("old: ptxas 12.8.93, libnvrtc none"));
  CHECK_THAT(project.gen({"build", "--toolchain", "wheels"}, {"VIRTUAL_ENV="}).err,
             Contains(".venv/nvidia/cu13: no such folder"));
}

TEST_CASE("build: compiled once, then kept, and nothing is written when nothing changed") {
  require_toolchain();
  const Project project;
  const GenResult first = project.gen({"build", "--json"});
  CAPTURE(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK(first.json()["compiled"] == 6);
  CHECK(first.json()["changed"] == true);
  const Manifest manifest = project.whole_pack();
  REQUIRE(manifest.kernels.size() == 6);
  const ManifestKernel& scale = *manifest.find("fake_scale_sm80_bf16_d64_r32_g0_t128i4");
  CHECK(scale.params == KernelParams{"Params", 32});
  CHECK(scale.block == 128);
  CHECK(scale.shared_bytes == 2048);
  CHECK(scale.variant == 1);
  CHECK(scale.registers > 0);
  CHECK(scale.plan == "plans/fake_sm80.json");
  CHECK(manifest.toolchain == ToolchainVersions{"13.0.88", "13.0.88"});

  const auto before = project.snapshot();
  const auto start = std::chrono::steady_clock::now();
  const GenResult second = project.gen({"build", "--json"});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
  CHECK(second.json()["kept"] == 6);
  CHECK(second.json()["changed"] == false);
  CHECK(project.snapshot() == before);

  SECTION("a changed template rebuilds its kernels alone") {
    project.edit("templates/fake/scale.cu", "params.factor *", "2 * params.factor *");
    const GenResult result = project.gen({"build", "--json"});
    CHECK(result.json()["compiled"] == 4);
    CHECK(result.json()["kept"] == 2);
    CHECK(project.whole_pack().kernels.size() == 6);
    CHECK(project.snapshot().size() == before.size());
    // Back again: from the cache, to the same bytes.
    project.edit("templates/fake/scale.cu", "2 * params.factor *", "params.factor *");
    CHECK(project.gen({"build", "--json"}).json()["cached"] == 4);
    CHECK(project.whole_pack() == manifest);
  }
  SECTION("a plan's words that leave the bytes alone change the manifest alone") {
    project.edit("templates/plans/fake_sm80.json", "[0, 1024]", "[0, 2048]");
    CHECK_THAT(project.gen({"verify", "--keys"}).out,
               Contains("when is {\"seq_len\":[0,1024]}, planned {\"seq_len\":[0,2048]}"));
    const GenResult result = project.gen({"build", "--json"});
    CHECK(result.json()["kept"] == 6);
    CHECK(result.json()["changed"] == true);
    CHECK(project.whole_pack().find("fake_scale_sm80_bf16_d64_r32_g0_t64i1")->when.seq_len->max == 2048);
  }
  SECTION("a damaged file and a damaged manifest are mended") {
    replace_file(project.pack() / scale.cubin.file, "damaged");
    CHECK(project.gen({"verify", "--keys"}).exit_code == 1);
    CHECK(project.gen({"build", "--json"}).json()["cached"] == 1);
    CHECK(project.whole_pack() == manifest);
    project.edit("cubins/manifest.json", "\"block\": 128", "\"block\": 256");
    const GenResult result = project.gen({"build"});
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, Contains("the manifest was altered"));
    CHECK(project.whole_pack() == manifest);
  }
  SECTION("one kernel that does not compile leaves the old pack as it was") {
    project.edit("templates/fake/scale.cu", "params.factor *", "params.facto *");
    const GenResult result = project.gen({"build"});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err,
               Contains("has no member \"facto\"") && Contains("4 of 6 kernels failed; cubins is as before"));
    CHECK(project.snapshot() == before);
  }
  SECTION("--only builds what matches and keeps the rest") {
    project.edit("templates/fake/scale.cu", "params.factor *", "3 * params.factor *");
    CHECK(project.gen({"build", "--only", "*_bf16_*t64i1", "--json"}).json()["compiled"] == 1);
    const Manifest partial = project.whole_pack();
    CHECK(partial.kernels.size() == 6);
    CHECK(*partial.find(scale.name) == scale);
    CHECK(project.gen({"verify", "--keys", "--json"}).json()["differences"].size() == 3);
  }
  SECTION("--only is refused where the rest of the pack is of another toolchain") {
    Manifest old = manifest;
    old.toolchain = {"12.9.41", "12.9.86"};
    replace_file(project.pack() / kManifestFile, serialise_manifest(old));
    const auto with_old = project.snapshot();
    const GenResult refused = project.gen({"build", "--only", "*_bf16_*"});
    CHECK(refused.exit_code == 1);
    CHECK_THAT(refused.err, Contains("--only: the kernels it would keep in cubins were made by NVRTC 12.9.41 and ptxas "
                                     "12.9.86") &&
                                Contains("toolchain.json pins NVRTC 13.0.88 and ptxas 13.0.88; build without --only"));
    CHECK(project.snapshot() == with_old);
    CHECK(project.gen({"build"}).exit_code == 0);
    CHECK(project.whole_pack() == manifest);
  }
  SECTION("verify: keys, files, and a rebuild") {
    CHECK(project.gen({"verify", "--keys"}).exit_code == 0);
    // Keys need no compiler at all.
    CHECK(project.gen({"verify", "--keys", "--toolchain", "nowhere"}).exit_code == 0);
    const GenResult rebuilt = project.gen({"verify", "--json"});
    CHECK(rebuilt.exit_code == 0);
    CHECK(rebuilt.json()["rebuilt"] == true);
    // Logs are kept where the messages say.
    fs::remove_all(project.root() / "build");
    CHECK(project.gen({"verify", "--cache", "elsewhere"}).exit_code == 0);
    CHECK(fs::exists(project.root() / "elsewhere/logs" / (scale.name + ".log")));
    CHECK_FALSE(fs::exists(project.root() / "build"));
    project.edit("templates/fake/scale.cu", "params.factor *", "params.facto *");
    CHECK_THAT(project.gen({"verify"}).out, Contains("(kept as build/cache/logs/" + scale.name + ".log)"));
    CHECK_THAT(project.read("build/cache/logs/" + scale.name + ".log"), Contains("has no member \"facto\""));
    project.edit("templates/fake/scale.cu", "params.facto *", "params.factor *");
    CHECK(project.snapshot() == before);

    project.edit("templates/fake/scale.cu", "params.factor *", "5 * params.factor *");
    const GenResult stale = project.gen({"verify", "--json"});
    CHECK(stale.exit_code == 1);
    CHECK(stale.json()["differences"][0] == json{{"kind", "changed"},
                                                 {"name", "fake_scale_sm80_bf16_d64_r32_g0_t128i4"},
                                                 {"what", "built from other inputs"}});
    CHECK(stale.json()["differences"][1]["kind"] == "different");

    json plan = Project::plan({{"integer_atomic", {{"tile", {{"threads", 96}}}}}});
    project.only_plan(plan);
    const GenResult other = project.gen({"verify", "--keys"});
    CHECK(other.exit_code == 1);
    CHECK_THAT(other.out,
               Contains("missing    fake_integer_atomic_sm80_bf16_d64_r32_g0_t96  planned by plans/plan.json") &&
                   Contains("extra      fake_scale_sm80_bf16_d64_r32_g0_t128i4  no plan asks for it"));
  }
  SECTION("list, show, lint, doctor") {
    CHECK_THAT(project.gen({"list"}).out, Contains("warps/SM") && Contains("6 kernels in cubins"));
    const json listed = project.gen({"list", "--json", "*_fp16_*", "*atomic*bf16*"}).json();
    CHECK(listed["ok"] == true);
    CHECK(listed["kernels"].size() == 4);
    CHECK(project.gen({"show", scale.name, "--json"}).json()["ok"] == true);
    const GenResult shown = project.gen({"show", scale.name});
    CHECK_THAT(shown.out,
               Contains("fake scale sm_80 bfloat16 head_dim 64") && Contains(scale.build_key) && Contains("threads"));
    CHECK_THAT(project.gen({"show", scale.name, "--ptx"}).out, Contains(".entry " + scale.name));
    CHECK_THAT(project.gen({"show", scale.name, "--ptx", "--json"}).json()["ptx_text"].get<std::string>(),
               Contains(".target sm_80"));
    CHECK_THAT(project.gen({"show", "fake_scale_sm80_bf16_d64_r32_g0_t128i5"}).err,
               Contains("did you mean " + scale.name));
    CHECK(project.gen({"lint", "--json"}).json()["checked"] == 6);
    project.write("bad.ptx", ".target sm_80\n.visible .entry k(.param .u64 p)\n{ mov.u32 %r1, %clock; ret; }\n");
    const GenResult linted = project.gen({"lint", "bad.ptx"});
    CHECK(linted.exit_code == 1);
    CHECK_THAT(linted.out, Contains("bad.ptx: line 3: reads %clock"));
    const json doctor = project.gen({"doctor", "--json"}).json();
    CHECK(doctor["ok"] == true);
    CHECK(doctor["toolchain"]["pinned"]["nvrtc"] == "13.0.88");
    CHECK(doctor["pack"]["kernels"] == 6);
    CHECK(doctor["pack"]["differences from the sources"].empty());
  }
}

TEST_CASE("show: --sass runs the disassembler that it finds, and says what it needs without one") {
  require_toolchain();
  const Project project;
  const std::string name = "fake_integer_atomic_sm80_bf16_d64_r32_g0_t64";
  REQUIRE(project.gen({"build", "--only", name}).exit_code == 0);
  const auto make_disassembler = [&](const std::string& file) {
    project.write(file, "#!/bin/sh\necho \"listing of $*\"; head -c 4 \"$2\"\n");
    fs::permissions(project.root() / file, fs::perms::owner_all);
  };
  make_disassembler("tools/nvdisasm");
  const std::string path = "PATH=" + (project.root() / "tools").string() + ":/usr/bin:/bin";
  CHECK(project.gen({"show", name, "--sass"}, {path}).out ==
        "listing of -c kernel.cubin\n\x7f"
        "ELF");

  const std::vector<std::string> bare = {"PATH=/usr/bin:/bin", "CUDA_HOME=", "VIRTUAL_ENV="};
  const GenResult result = project.gen({"show", name, "--sass"}, bare);
  if (fs::exists("/usr/local/cuda/bin/nvdisasm") || fs::exists("/usr/local/cuda/bin/cuobjdump")) {
    CHECK_THAT(result.out, Contains("EXIT"));  // the machine's own, which cannot be hidden
  } else {
    CHECK(result.exit_code == 3);
    CHECK_THAT(result.err, Contains("--sass needs nvdisasm or cuobjdump"));
  }
  make_disassembler(".venv/lib/python3.12/site-packages/nvidia/cu13/bin/nvdisasm");
  CHECK(project.gen({"show", name, "--sass"}, bare).exit_code == 0);
}

TEST_CASE("doctor: never fails") {
  const Project project;
  fs::remove_all(project.templates());
  fs::remove(project.root() / "toolchain.json");
  const GenResult result = project.gen({"doctor"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("problem: "));
}

TEST_CASE("build: the user's own plans, templates, pack and cache") {
  require_toolchain();
  const Project project;
  project.write("elsewhere/mine.json", Project::plan({{"scale", {{"tile", {{"threads", 96}, {"items", 1}}}}}}).dump());
  const GenResult result = project.gen(
      {"build", "--plans", "elsewhere/mine.json", "--out", "elsewhere/pack", "--cache", "elsewhere/cache", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const Manifest manifest = read_manifest(project.root() / "elsewhere/pack");
  REQUIRE(manifest.kernels.size() == 1);
  CHECK(manifest.kernels[0].plan == "mine.json");
  CHECK_FALSE(fs::exists(project.pack()));
  CHECK(project.gen({"verify", "--keys", "--plans", "elsewhere/mine.json", "--pack", "elsewhere/pack"}).exit_code == 0);
}

TEST_CASE("build: the same bytes from another folder, with one thread or more") {
  require_toolchain();
  const Project one, other;
  REQUIRE(one.gen({"build", "--jobs", "1"}).exit_code == 0);
  REQUIRE(other.gen({"build", "--jobs", "4"}).exit_code == 0);
  CHECK(one.read("cubins/manifest.json") == other.read("cubins/manifest.json"));
}

TEST_CASE("build: two at once leave one whole pack") {
  require_toolchain();
  const Project project;
  const pid_t builds[] = {project.start({"build"}), project.start({"build"})};
  for (const pid_t build : builds) {
    int status = 0;
    ::waitpid(build, &status, 0);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  CHECK(project.whole_pack().kernels.size() == 6);
  CHECK(project.snapshot().size() == 13);
  CHECK(project.gen({"build", "--json"}).json()["changed"] == false);
}

TEST_CASE("build: killed half way, it leaves the old pack or the new one") {
  require_toolchain();
  const Project project;
  REQUIRE(project.gen({"build"}).exit_code == 0);
  const Manifest old_pack = project.whole_pack();
  const std::string source = project.read("templates/fake/scale.cu");
  for (int round = 0; round < 8; ++round) {
    project.write("templates/fake/scale.cu", source + "// round " + std::to_string(round) + "\n");
    const pid_t build = project.start({"build"});
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 60 * round));
    ::kill(build, SIGKILL);
    ::waitpid(build, nullptr, 0);
    CHECK(project.whole_pack().kernels.size() == old_pack.kernels.size());
  }
  project.write("templates/fake/scale.cu", source);
  REQUIRE(project.gen({"build"}).exit_code == 0);
  CHECK(project.whole_pack() == old_pack);
  CHECK(project.snapshot().size() == 13);
}

}  // namespace
}  // namespace stratum::gen
