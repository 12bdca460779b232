#include "exec/control.h"

#include <catch2/catch.hpp>

#include "exec/program.h"

namespace stratum::emulator {
namespace {

const Flow kPlain{};
const Flow kReturn{.falls_through = false, .returns = true};
const Flow kGuardedReturn{.returns = true};
Flow jump(uint32_t to) { return {.falls_through = false, .branches = true, .target = to}; }
Flow branch(uint32_t to) { return {.branches = true, .target = to}; }

}  // namespace

TEST_CASE("the sides of a branch meet at its post-dominator") {
  // 0 branch 3; 1; 2 jump 4; 3; 4; 5 ret
  CHECK(reconvergence_points({branch(3), kPlain, jump(4), kPlain, kPlain, kReturn})[0] == 4);
  // Without an else.
  CHECK(reconvergence_points({branch(2), kPlain, kPlain, kReturn})[0] == 2);
  // A branch in a branch: 0 branch 5; 1 branch 3; 2; 3; 4 jump 6; 5; 6 ret
  const auto nested = reconvergence_points({branch(5), branch(3), kPlain, kPlain, jump(6), kPlain, kReturn});
  CHECK(nested[0] == 6);
  CHECK(nested[1] == 3);
}

TEST_CASE("lanes of a loop meet behind it") {
  // 0; 1 (head); 2 branch 1; 3 ret
  CHECK(reconvergence_points({kPlain, kPlain, branch(1), kReturn})[2] == 3);
  // With a way out in the middle: 0 branch 3 (out); 1; 2 branch 0; 3 ret
  const auto out = reconvergence_points({branch(3), kPlain, branch(0), kReturn});
  CHECK(out[0] == 3);
  CHECK(out[2] == 3);
}

TEST_CASE("what a side leaves by ret meets nobody") {
  // 0 branch 2; 1 ret; 2; 3 ret
  CHECK(reconvergence_points({branch(2), kReturn, kPlain, kReturn})[0] == kEnd);
  // A guarded ret ends its block, but does not branch: 0; 1 @p ret; 2 branch 4; 3; 4 ret
  const auto guarded = reconvergence_points({kPlain, kGuardedReturn, branch(4), kPlain, kReturn});
  CHECK(guarded[1] == 0);
  CHECK(guarded[2] == 4);
  // A guarded ret on one side: some lanes of it never meet the others: 0 branch 2; 1 @p ret; 2 ret
  CHECK(reconvergence_points({branch(2), kGuardedReturn, kReturn})[0] == kEnd);
}

TEST_CASE("a loop without an end has no place to meet") {
  // 0 branch 2; 1 jump 1; 2 ret: lanes that reach the end meet there.
  CHECK(reconvergence_points({branch(2), jump(1), kReturn})[0] == 2);
  CHECK(reconvergence_points({kPlain, jump(0), kReturn})[1] == kEnd);
}

}  // namespace stratum::emulator
