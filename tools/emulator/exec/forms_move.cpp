// Moves between registers, and words taken apart into halves and put together.
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

template <class T>
void move(Warp& warp, const Step& step, uint32_t lanes) {
  each_row(
      lanes, row<T>(warp, step.row[0]), [](T a) { return a; }, row<T>(warp, step.row[1]));
}

void unpack_halves(Warp& warp, const Step& step, uint32_t lanes) {
  uint32_t* low = row<uint32_t>(warp, step.row[0]);
  uint32_t* high = row<uint32_t>(warp, step.row[1]);
  const uint32_t* word = row<uint32_t>(warp, step.row[2]);
  for_each_lane(lanes, [&](uint32_t lane) {
    low[lane] = word[lane] & 0xffff;
    high[lane] = word[lane] >> 16;
  });
}

void unpack_words(Warp& warp, const Step& step, uint32_t lanes) {
  uint32_t* low = row<uint32_t>(warp, step.row[0]);
  uint32_t* high = row<uint32_t>(warp, step.row[1]);
  const uint64_t* both = row<uint64_t>(warp, step.row[2]);
  for_each_lane(lanes, [&](uint32_t lane) {
    low[lane] = static_cast<uint32_t>(both[lane]);
    high[lane] = static_cast<uint32_t>(both[lane] >> 32);
  });
}

const Form kForms[] = {
    {"mov.b32", "w=w", move<uint32_t>},
    {"mov.u32", "w=w", move<uint32_t>},
    {"mov.s32", "w=w", move<uint32_t>},
    {"mov.f32", "w=w", move<uint32_t>},
    {"mov.b64", "q=q", move<uint64_t>},
    {"mov.u64", "q=q", move<uint64_t>},
    {"mov.s64", "q=q", move<uint64_t>},
    {"mov.b16", "h=h", move<uint32_t>},
    {"mov.u16", "h=h", move<uint32_t>},
    {"mov.b64", "2w=q", unpack_words},
    {"mov.b64", "q=2w", each<[](uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }>},
    {"mov.b32", "2h=w", unpack_halves},
    {"mov.b32", "w=2h", each<[](uint32_t low, uint32_t high) { return low | high << 16; }>},
};

}  // namespace

FormList move_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
