// The driver of these tests, named before anything opens one. The emulator is linked too, for what tests ask of it: same
// file, same instance.
#include <cstdlib>

namespace {

struct Environment {
  Environment() {
    setenv("STRATUM_DRIVER", EMULATOR_PATH, 1);
    setenv("STRATUM_EMULATOR_CC", "9.0,8.0,7.5", 1);
    setenv("STRATUM_EMULATOR_EXECUTE", "0", 1);     // the kernels are made up
    setenv("STRATUM_EMULATOR_LEAKS", "ignore", 1);  // driver calls that were made to fail leave objects behind
  }
} environment;

}  // namespace
