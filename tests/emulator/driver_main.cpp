#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>

int main(int argc, char** argv) {
  setenv("STRATUM_EMULATOR_SCHEDULE", "late", 1);  // before the driver's first call
  setenv("STRATUM_EMULATOR_EXECUTE", "0", 1);
  setenv("STRATUM_EMULATOR_LEAKS", "error", 1);
  return Catch::Session().run(argc, argv);
}
