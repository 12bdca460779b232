// Exchange of registers between the lanes of a warp.
#include <fmt/format.h>

#include <cstring>

#include "exec/forms.h"
#include "exec/trap.h"

namespace stratum::emulator {
namespace {

enum class Mode { Up, Down, Butterfly, Index };

// Operands: d|p, a, b, c, mask of lanes. Bits 8-12 of c cut the warp into segments; within a segment its bits 0-4 bound
// the lane that may be read. A lane that would read beyond the bound gets its own value and a false p.
template <Mode mode>
void shuffle(Warp& warp, const Step& step, uint32_t lanes) {
  const auto row = [&](int i) { return reinterpret_cast<uint32_t*>(warp.registers + step.row[i]); };
  uint32_t a[kLanes];  // d may be the same register
  std::memcpy(a, row(2), sizeof a);
  uint32_t inside = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    const uint32_t b = row(3)[lane] & 31, c = row(4)[lane], named = row(5)[lane] & warp.live;
    if (lanes != named) trap_not_converged(warp, lanes, named);
    const uint32_t segment = c >> 8 & 31;
    const uint32_t last = (lane & segment) | (c & 31 & ~segment);
    // Up counts down to the segment's first lane, the bound there; may wrap below it.
    const uint32_t source = mode == Mode::Up          ? lane - b
                            : mode == Mode::Down      ? lane + b
                            : mode == Mode::Butterfly ? lane ^ b
                                                      : (lane & segment) | (b & ~segment);
    const bool within = mode == Mode::Up ? static_cast<int32_t>(source) >= static_cast<int32_t>(last) : source <= last;
    inside |= static_cast<uint32_t>(within) << lane;
    if (within && !(lanes >> source & 1)) {
      throw Trap(Check::Converged, fmt::format("lane {} reads lane {}, which does not take part", lane, source));
    }
    row(0)[lane] = a[within ? source : lane];
  });
  uint32_t* predicate = row(1);
  *predicate = (*predicate & ~lanes) | inside;
}

const Form kForms[] = {
    {"shfl.sync.up.b32", "w|p=wwww", shuffle<Mode::Up>},
    {"shfl.sync.down.b32", "w|p=wwww", shuffle<Mode::Down>},
    {"shfl.sync.bfly.b32", "w|p=wwww", shuffle<Mode::Butterfly>},
    {"shfl.sync.idx.b32", "w|p=wwww", shuffle<Mode::Index>},
};

}  // namespace

FormList shuffle_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
