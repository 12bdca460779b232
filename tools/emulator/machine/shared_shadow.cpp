#include "machine/shared_shadow.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/trap.h"

namespace stratum::emulator {
namespace {

// Calls f(cell, its bytes among those of the access as a mask, the first of them) for every cell that is touched.
template <class F>
void each_cell(uint32_t offset, uint32_t bytes, F f) {
  for (uint32_t at = 0; at < bytes;) {
    const uint32_t in_cell = (offset + at) % kCellBytes, count = std::min(kCellBytes - in_cell, bytes - at);
    f((offset + at) / kCellBytes, ((1u << count) - 1) << in_cell, at);
    at += count;
  }
}

}  // namespace

SharedShadow::SharedShadow(const Order& order, uint32_t bytes)
    : order_(order), writes_((bytes + kCellBytes - 1) / kCellBytes), reads_(order.warps()) {
  for (std::vector<Read>& reads : reads_) reads.resize(writes_.size());
}

void SharedShadow::reset() {
  std::ranges::fill(writes_, Write{});
  for (std::vector<Read>& reads : reads_) std::ranges::fill(reads, Read{});
}

uint32_t SharedShadow::read(Actor actor, uint32_t offset, uint32_t bytes) {
  const uint32_t warp = actor.thread / kLanes, now = order_.now(warp);
  uint32_t undefined = 0;
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t mask, uint32_t first) {
    const Write& write = writes_[cell];
    if (write.copying) race("read", actor, cell, "a cp.async may still be writing it", write.thread, write.line);
    if (write.clock && write.thread != actor.thread && !order_.ordered(write.thread, write.clock, warp)) {
      race("read", actor, cell, "written", write.thread, write.line);
    }
    const uint32_t missing = write.undefined & mask;
    if (missing) undefined |= (missing >> (offset + first) % kCellBytes) << first;
    Read& read = reads_[warp][cell];
    const bool joins = read.clock == now && read.thread != actor.thread;
    read = {now, actor.line, joins ? kSeveral : actor.thread};
  });
  return undefined;
}

void SharedShadow::check_write(Actor actor, uint32_t cell) const {
  const uint32_t warp = actor.thread / kLanes;
  const Write& write = writes_[cell];
  if (write.copying) race("write", actor, cell, "a cp.async may still be writing it", write.thread, write.line);
  if (write.clock && write.thread != actor.thread && !order_.ordered(write.thread, write.clock, warp)) {
    race("write", actor, cell, "written", write.thread, write.line);
  }
  for (uint32_t by = 0; by < reads_.size(); ++by) {
    const Read& read = reads_[by][cell];
    if (!read.clock || read.thread == actor.thread || order_.ordered(by * kLanes, read.clock, warp)) continue;
    race("write", actor, cell, "read", read.thread == kSeveral ? by * kLanes : read.thread, read.line);
  }
}

void SharedShadow::write(Actor actor, uint32_t offset, uint32_t bytes, uint32_t undefined) {
  const uint32_t now = order_.now(actor.thread / kLanes);
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t mask, uint32_t first) {
    check_write(actor, cell);
    const uint32_t missing = undefined >> first << (offset + first) % kCellBytes;
    const uint32_t left = (writes_[cell].undefined & ~mask) | (missing & mask);
    writes_[cell] = {now, actor.line, static_cast<uint16_t>(actor.thread), false, static_cast<uint8_t>(left)};
  });
}

void SharedShadow::begin_copy(Actor actor, uint32_t offset, uint32_t bytes) {
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t, uint32_t) {
    check_write(actor, cell);
    writes_[cell] = {order_.now(actor.thread / kLanes), actor.line, static_cast<uint16_t>(actor.thread), true,
                     kAllBytes};
  });
}

void SharedShadow::end_copy(Actor actor, uint32_t offset, uint32_t bytes, uint32_t undefined) {
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t, uint32_t first) {
    writes_[cell].copying = false;
    writes_[cell].clock = order_.now(actor.thread / kLanes);
    writes_[cell].undefined = undefined >> first & kAllBytes;
  });
}

void SharedShadow::race(const char* what, Actor actor, uint32_t cell, const char* earlier, uint32_t thread,
                        int line) const {
  throw Trap(
      Check::Race,
      fmt::format("{} of shared address {:#x}, lane {}: {} by warp {}, lane {} at line {}; nothing orders the two",
                  what, kSharedBase + kCellBytes * cell, actor.thread % kLanes, earlier, thread / kLanes,
                  thread % kLanes, line));
}

}  // namespace stratum::emulator
