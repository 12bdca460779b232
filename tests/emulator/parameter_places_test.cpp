// Where a kernel's parameters lie: made-up images, and all that the pack has.
#include <catch2/catch.hpp>

#include "common/manifest.h"
#include "driver/parameters.h"

namespace stratum::emulator::driver {

TEST_CASE("where parameters lie, by the image") {
  const auto places = parameter_places("a text with f(12) and ff(832) in it", "ff");
  REQUIRE(places);
  REQUIRE(places->size() == 1);
  CHECK(places->front().offset == 0);
  CHECK(places->front().bytes == 832);
  CHECK_FALSE(parameter_places("f(12) and g", "g"));
  CHECK_FALSE(parameter_places("f(12", "f"));
  CHECK_FALSE(parameter_places("f(-1)", "f"));

  // A struct with tensor maps is aligned to 64 bytes; on sm_90 parameters begin at 528.
  const Manifest pack = read_manifest(PACK_PATH);
  for (const ManifestKernel& kernel : pack.kernels) {
    const std::string cubin = read_pack_file(PACK_PATH, kernel.cubin);
    const auto found = parameter_places(cubin, kernel.name);
    INFO(kernel.name);
    REQUIRE(found);
    REQUIRE(found->size() == 1);
    CHECK(found->front().bytes == kernel.params.bytes);
    CHECK(found->front().offset == (kernel.key.arch == "sm_90a" ? 48 : 0));
    for (const size_t bytes : {size_t{0}, size_t{3}, size_t{64}, cubin.size() / 2}) {
      CHECK_FALSE(parameter_places(cubin.substr(0, bytes), kernel.name));
    }
  }
}

}  // namespace stratum::emulator::driver
