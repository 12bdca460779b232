// cp.async: copies from global to shared memory that end when their thread waits for them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/trap.h"
#include "machine/async_copies.h"
#include "machine/options.h"
#include "machine/watch.h"
#define STRATUM_EMULATOR_ISA once  // what the row forms share, a copy for this source
#include "exec/addresses.h"

namespace stratum::emulator {
namespace {

// Operands: [to], [from], bytes, and how many of them are read, all if the form doesn't say it; the rest is filled with
// zeros. Places are checked when the copy is issued. An address of which nothing is read may be any.
template <bool kFills>
void copy(Warp& warp, const Step& step, uint32_t lanes) {
  const uint32_t bytes = step.number;
  if (bytes != 4 && bytes != 8 && bytes != 16)
    throw Trap(Check::Operand, fmt::format("expected 4, 8 or 16 bytes, got {}", bytes));
  uint32_t from_bytes[kLanes];
  std::fill_n(from_bytes, kLanes, bytes);
  if (kFills) std::memcpy(from_bytes, warp.registers + step.row[3], sizeof from_bytes);
  uint32_t reading = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    if (from_bytes[lane] > bytes) {
      throw Trap(Check::Operand, fmt::format("lane {} copies {} bytes of {}", lane, from_bytes[lane], bytes));
    }
    reading |= static_cast<uint32_t>(from_bytes[lane] != 0) << lane;
  });
  once::Places to, from;
  uint64_t to_address[kLanes], from_address[kLanes] = {};
  once::find_unwatched_places<Space::Shared>(warp, step, step.row[0], 0, bytes, bytes, lanes, to_address, to);
  while (reading) {  // lanes that read the same number of bytes, commonly all of them
    const uint32_t count = from_bytes[__builtin_ctz(reading)];
    uint32_t same = 0;
    for_each_lane(reading, [&](uint32_t lane) { same |= static_cast<uint32_t>(from_bytes[lane] == count) << lane; });
    once::find_unwatched_places<Space::Global>(warp, step, step.row[1], 1, count, bytes, same, from_address, from);
    reading &= ~same;
  }
  if (warp.watch) warp.watch->count_copies(warp, to_address, from_address, from_bytes, bytes, lanes);
  for_each_lane(lanes, [&](uint32_t lane) {
    AsyncCopies::Copy one{to.of[lane], from_bytes[lane] ? from.of[lane] : nullptr, bytes, from_bytes[lane],
                          to_address[lane]};
    if (warp.watch) {
      one.undefined = warp.watch->begin_copy(warp, lane, to_address[lane], bytes, from_address[lane], from_bytes[lane]);
    }
    const Arrival arrival = warp.options->copies;
    warp.copies->issue(lane, one, arrival == Arrival::AtIssue || (arrival == Arrival::Random && (warp.random() & 1)));
  });
}

void commit(Warp& warp, const Step&, uint32_t lanes) { warp.copies->commit(lanes); }

void wait(Warp& warp, const Step& step, uint32_t lanes) { warp.copies->wait(warp, lanes, step.number); }

// Closes the lanes' groups first, so that it waits for copies that no group has yet.
void wait_all(Warp& warp, const Step&, uint32_t lanes) {
  warp.copies->commit(lanes);
  warp.copies->wait(warp, lanes, 0);
}

const Form kForms[] = {
    {"cp.async.ca.shared.global", "=SGi", copy<false>},
    {"cp.async.cg.shared.global", "=SGi", copy<false>},
    {"cp.async.ca.shared.global", "=SGiw", copy<true>},
    {"cp.async.cg.shared.global", "=SGiw", copy<true>},
    {"cp.async.commit_group", "=", commit},
    {"cp.async.wait_group", "=i", wait},
    {"cp.async.wait_all", "=", wait_all},
};

}  // namespace

FormList async_copy_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
