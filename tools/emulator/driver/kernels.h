// The kernels that launches run: those of the pack, and texts that a test put in the place of one.
//
// The pack is the folder that STRATUM_EMULATOR_PACK names, else `cubins` beside the libstratum.so that is loaded. Calls
// are serialised by the state's mutex.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/manifest.h"
#include "driver/state.h"
#include "machine/counters.h"
#include "machine/run.h"

namespace stratum::emulator::driver {

// Instructions that the warps of a block may execute unless somebody says otherwise: minutes, so that a loop without
// end comes to one.
inline constexpr uint64_t kLimit = 1'000'000'000;

class Kernels {
 public:
  // Reads the pack's manifest the first time. Throws if there is none.
  static Kernels& get();

  // What a launch of the function runs. The cubin that its module was loaded from leads, by its hash, to the PTX packed
  // beside it. Throws if the pack has no such cubin, or PTX that can't be decoded.
  const Kernel& of(const Function& function);

  // The pack's row of the cubin that the function's module was loaded from. Throws if there is none.
  const ManifestKernel& row(const Function& function) const;

  // Where launches of the function add what they do, if checks are on; null while another text runs in its place.
  Counters* counters(const Function& function);
  // Per line of the pack's PTX, from 0: how often warps executed its instruction in all launches that were counted so
  // far, -1 for a line without one. Empty if there was no such launch.
  std::vector<int64_t> executed(const std::string& name) const;

  // Begins counting anew.
  void forget_counts() { counted_.clear(); }
  // All that was counted, as JSON: see emulator_counters. Empty if there was no such launch.
  std::string counters_json(const std::string& name) const;

  // The pack's PTX of a kernel. std::invalid_argument if it has none of that name.
  std::string text(std::string_view name) const;

  // From now on launches of the kernel run this PTX, which has an entry of its name and takes as many bytes of
  // parameters. Throws what Kernel::load does, and then changes nothing.
  void replace(const std::string& name, std::string_view ptx);
  // The pack's again.
  void restore(const std::string& name);

  Mma mma;
  bool checks = true;  // as in Options, of all launches
  uint64_t limit = kLimit;

 private:
  struct Counted {
    const Kernel* kernel;
    Counters counters;
  };

  Kernels();
  std::string text(const ManifestKernel& row) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, Kernel> packed_;    // by image
  std::map<std::string, Kernel> replaced_;  // by name
  std::map<std::string, Counted> counted_;  // by name
};

}  // namespace stratum::emulator::driver
