// How the driver of these tests behaves, set before its first call.
#include <cstdlib>

namespace {

struct Environment {
  Environment() {
    setenv("STRATUM_EMULATOR_SCHEDULE", "late", 1);
    setenv("STRATUM_EMULATOR_EXECUTE", "0", 1);
    setenv("STRATUM_EMULATOR_LEAKS", "error", 1);
  }
} environment;

}  // namespace
