// Where lanes that a branch has parted meet again.
#pragma once

#include <cstdint>
#include <vector>

namespace stratum::emulator {

// How control leaves a step: to the next one, to the target of a branch, to both (a guarded branch), or out (ret).
struct Flow {
  bool falls_through = true;
  bool returns = false;
  bool branches = false;
  uint32_t target = 0;
};

// For every step that branches: its immediate post-dominator, the first step that all paths from it have in common;
// kEnd if they share none. 0 for the other steps.
std::vector<uint32_t> reconvergence_points(const std::vector<Flow>& steps);

}  // namespace stratum::emulator
