// What tests ask about the kernels' instructions: inspect.h.
#include "driver/inspect.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "driver/kernels.h"
#include "driver/state.h"

namespace {

using namespace stratum::emulator::driver;

// A text that the calling thread keeps for its caller.
const char* keep(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace

extern "C" {

const char* emulator_ptx(const char* kernel) {
  const std::lock_guard lock(state().mutex);
  try {
    return keep(Kernels::get().text(kernel));
  } catch (const std::exception&) {
    return nullptr;
  }
}

const char* emulator_override(const char* kernel, const char* ptx) {
  const std::lock_guard lock(state().mutex);
  try {
    if (ptx != nullptr) {
      Kernels::get().replace(kernel, ptx);
    } else {
      Kernels::get().restore(kernel);
    }
    return nullptr;
  } catch (const std::exception& error) {
    return keep(error.what());
  }
}

void emulator_checks(int32_t on) {
  const std::lock_guard lock(state().mutex);
  Kernels::get().checks = on != 0;
}

void emulator_limit(int64_t instructions) {
  const std::lock_guard lock(state().mutex);
  Kernels::get().limit = static_cast<uint64_t>(instructions);
}

void emulator_exact_mma(int32_t on) {
  const std::lock_guard lock(state().mutex);
  Kernels::get().mma = on ? stratum::emulator::Mma::Exact : stratum::emulator::Mma::Plain;
}

int64_t emulator_coverage(const char* kernel, int64_t* executed, int64_t lines) {
  const std::lock_guard lock(state().mutex);
  const std::vector<int64_t> counts = Kernels::get().executed(kernel);
  std::copy_n(counts.begin(), std::min<size_t>(counts.size(), static_cast<size_t>(lines)), executed);
  return static_cast<int64_t>(counts.size());
}

const char* emulator_counters(const char* kernel) {
  const std::lock_guard lock(state().mutex);
  const std::string json = Kernels::get().counters_json(kernel);
  return json.empty() ? nullptr : keep(json);
}

void emulator_forget_counts(void) {
  const std::lock_guard lock(state().mutex);
  Kernels::get().forget_counts();
}

}  // extern "C"
