#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>

int main(int argc, char** argv) {
  // Before anything opens the driver. The fake driver is linked too, for what tests ask of it: same file, same
  // instance.
  setenv("STRATUM_DRIVER", FAKE_DRIVER_PATH, 1);
  setenv("STRATUM_FAKE_CC", "9.0,8.0,7.5", 1);
  return Catch::Session().run(argc, argv);
}
