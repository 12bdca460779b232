#include <catch2/catch.hpp>

#include "common/arch_coverage.h"

namespace stratum {
namespace {

TEST_CASE("archs: those that run on a device, the chip's own first") {
  using Names = std::vector<std::string>;
  for (const int minor : {0, 6, 7, 9}) CHECK(archs_for_device(8, minor) == Names{"sm_80"});
  CHECK(archs_for_device(9, 0) == Names{"sm_90a", "sm_90"});
  CHECK(archs_for_device(10, 0) == Names{"sm_100a", "sm_100"});
  CHECK(archs_for_device(10, 3) == Names{"sm_103a", "sm_100"});
  CHECK(archs_for_device(12, 0) == Names{"sm_120a", "sm_120"});
  CHECK(archs_for_device(12, 1) == Names{"sm_121a", "sm_120"});
  for (const auto& [major, minor] :
       {std::pair(7, 5), std::pair(9, 1), std::pair(10, 1), std::pair(11, 0), std::pair(13, 0)}) {
    CHECK(archs_for_device(major, minor).empty());
  }
}

TEST_CASE("archs: the devices that run a target's cubins") {
  CHECK(covered_devices("sm_80") == "8.0, 8.6, 8.7, 8.9");
  CHECK(covered_devices("sm_90a") == "9.0");
  CHECK(covered_devices("sm_70") == "");
}

}  // namespace
}  // namespace stratum
