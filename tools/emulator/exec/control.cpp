// Immediate post-dominators over basic blocks, by the algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast
// Dominance Algorithm", 2001), run backward from a block that stands for the end of the kernel.
#include "exec/control.h"

#include <algorithm>
#include <utility>

#include "exec/program.h"

namespace stratum::emulator {
namespace {

constexpr uint32_t kNone = 0xffffffffu;

struct Blocks {
  std::vector<uint32_t> first;                    // step
  std::vector<uint32_t> of_step;                  // block of each step
  std::vector<std::vector<uint32_t>> successors;  // the last block is the end
  std::vector<std::vector<uint32_t>> predecessors;
};

Blocks split(const std::vector<Flow>& steps) {
  const uint32_t count = static_cast<uint32_t>(steps.size());
  std::vector<bool> leads(count + 1, false);
  leads[0] = true;
  for (uint32_t i = 0; i < count; ++i) {
    if (steps[i].branches) leads[steps[i].target] = true;
    if (steps[i].branches || steps[i].returns) leads[i + 1] = true;
  }
  Blocks blocks;
  for (uint32_t i = 0; i < count; ++i) {
    if (leads[i]) blocks.first.push_back(i);
    blocks.of_step.push_back(static_cast<uint32_t>(blocks.first.size() - 1));
  }
  const uint32_t end = static_cast<uint32_t>(blocks.first.size());
  blocks.of_step.push_back(end);
  blocks.successors.resize(end + 1);
  blocks.predecessors.resize(end + 1);
  for (uint32_t i = 0; i < count; ++i) {
    if (i + 1 < count && !leads[i + 1]) continue;  // not the last of its block
    const auto link = [&](uint32_t to) {
      blocks.successors[blocks.of_step[i]].push_back(to);
      blocks.predecessors[to].push_back(blocks.of_step[i]);
    };
    if (steps[i].falls_through) link(blocks.of_step[i + 1]);
    if (steps[i].branches) link(blocks.of_step[steps[i].target]);
    if (steps[i].returns) link(end);
  }
  return blocks;
}

// Numbers the blocks that reach the end so that each has a higher number than those nearer the end on some path.
void number_from(uint32_t start, const Blocks& blocks, std::vector<uint32_t>& number, std::vector<uint32_t>& order) {
  std::vector<std::pair<uint32_t, size_t>> path{{start, 0}};
  std::vector<bool> seen(blocks.successors.size(), false);
  seen[start] = true;
  while (!path.empty()) {
    auto& [block, next] = path.back();
    if (next == blocks.predecessors[block].size()) {
      order.push_back(block);
      path.pop_back();
      continue;
    }
    const uint32_t predecessor = blocks.predecessors[block][next++];
    if (seen[predecessor]) continue;
    seen[predecessor] = true;
    path.emplace_back(predecessor, 0);
  }
  std::reverse(order.begin(), order.end());
  for (uint32_t i = 0; i < order.size(); ++i) number[order[i]] = i;
}

}  // namespace

std::vector<uint32_t> reconvergence_points(const std::vector<Flow>& steps) {
  const Blocks blocks = split(steps);
  const uint32_t end = static_cast<uint32_t>(blocks.first.size());
  std::vector<uint32_t> number(end + 1, kNone), order, meets(end + 1, kNone);
  number_from(end, blocks, number, order);
  meets[end] = end;
  for (bool changed = true; changed;) {
    changed = false;
    for (const uint32_t block : order) {
      if (block == end) continue;
      uint32_t common = kNone;
      for (uint32_t successor : blocks.successors[block]) {
        if (meets[successor] == kNone) continue;
        uint32_t other = common == kNone ? successor : common;
        while (successor != other) {
          while (number[successor] > number[other]) successor = meets[successor];
          while (number[other] > number[successor]) other = meets[other];
        }
        common = successor;
      }
      if (common != meets[block]) changed = true;
      meets[block] = common;
    }
  }
  std::vector<uint32_t> points(steps.size(), 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].branches) continue;
    const uint32_t block = meets[blocks.of_step[i]];
    points[i] = block == kNone || block == end ? kEnd : blocks.first[block];
  }
  return points;
}

}  // namespace stratum::emulator
