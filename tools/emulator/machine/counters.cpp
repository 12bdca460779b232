#include "machine/counters.h"

#include <algorithm>
#include <array>

namespace stratum::emulator {
namespace {

constexpr uint32_t kBanks = 32, kSectorBytes = 32;

// Calls f(the lanes of a pass) for the groups of lanes that the hardware serves together.
template <class F>
void each_group(uint32_t bytes, uint32_t lanes, F f) {
  const uint32_t group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  for (uint32_t first = 0; first < kLanes; first += group) {
    const uint32_t those = lanes & (group == 32 ? kAllLanes : ((1u << group) - 1) << first);
    if (those) f(those);
  }
}

}  // namespace

void Counters::add(const Counters& other) {
  steps.resize(std::max(steps.size(), other.steps.size()));
  for (size_t i = 0; i < other.steps.size(); ++i) {
    StepCounts& to = steps[i];
    const StepCounts& from = other.steps[i];
    to.executed += from.executed, to.lanes += from.lanes, to.bytes += from.bytes, to.sectors += from.sectors;
    to.wavefronts += from.wavefronts, to.least_wavefronts += from.least_wavefronts;
    to.ticks += from.ticks;
  }
  executed.resize(std::max(executed.size(), other.executed.size()));
  for (size_t warp = 0; warp < other.executed.size(); ++warp) {
    executed[warp].resize(steps.size());
    for (size_t i = 0; i < other.executed[warp].size(); ++i) executed[warp][i] += other.executed[warp][i];
  }
  blocks += other.blocks;
}

uint32_t wavefronts(const uint32_t* offset, uint32_t bytes, uint32_t lanes) {
  uint32_t passes = 0;
  each_group(bytes, lanes, [&](uint32_t group) {
    std::array<std::array<uint32_t, kLanes>, kBanks> words;  // distinct ones of each bank
    std::array<uint32_t, kBanks> count{};
    uint32_t most = 0;
    for_each_lane(group, [&](uint32_t lane) {
      for (uint32_t word = offset[lane] / 4; word <= (offset[lane] + bytes - 1) / 4; ++word) {
        auto& in_bank = words[word % kBanks];
        uint32_t& known = count[word % kBanks];
        if (std::find(in_bank.begin(), in_bank.begin() + known, word) == in_bank.begin() + known) {
          in_bank[known++] = word;
          most = std::max(most, known);
        }
      }
    });
    passes += most;
  });
  return passes;
}

uint32_t least_wavefronts(uint32_t bytes, uint32_t lanes) {
  uint32_t passes = 0;
  each_group(bytes, lanes, [&](uint32_t) { ++passes; });
  return passes;
}

uint32_t sectors(const uint64_t* address, uint32_t bytes, uint32_t lanes) {
  std::array<uint64_t, 2 * kLanes> touched;
  uint32_t count = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    for (uint64_t sector = address[lane] / kSectorBytes; sector <= (address[lane] + bytes - 1) / kSectorBytes;
         ++sector) {
      if (count == 0 || touched[count - 1] != sector) touched[count++] = sector;
    }
  });
  std::sort(touched.begin(), touched.begin() + count);
  return static_cast<uint32_t>(std::unique(touched.begin(), touched.begin() + count) - touched.begin());
}

}  // namespace stratum::emulator
