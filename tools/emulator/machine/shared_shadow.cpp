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
    : order_(order), writes_((bytes + kCellBytes - 1) / kCellBytes) {
  for (uint32_t warp = 0; warp < order.warps(); ++warp) readers_.push_back(make_reader(warp * kLanes));
}

void SharedShadow::reset() {
  std::ranges::fill(writes_, Write{});
  for (Reader& reader : readers_) {
    std::ranges::fill(reader.reads, Read{});
    std::ranges::fill(reader.newest, 0u);
  }
}

SharedShadow::Reader SharedShadow::make_reader(uint32_t who) const {
  return {who, std::vector<Read>(writes_.size()), std::vector<uint32_t>(writes_.size() / kStretch + 1)};
}

SharedShadow::Reader& SharedShadow::reader_of(uint32_t who) {
  const auto found = std::ranges::find(readers_, who, &Reader::who);
  return found != readers_.end() ? *found : readers_.emplace_back(make_reader(who));
}

void SharedShadow::Reader::note(uint32_t offset, uint32_t bytes, uint32_t clock) {
  const uint32_t first = offset / kCellBytes / kStretch, last = (offset + bytes - 1) / kCellBytes / kStretch;
  for (uint32_t i = first; i <= last; ++i) newest[i] = std::max(newest[i], clock);
}

uint32_t SharedShadow::read(Actor actor, uint32_t offset, uint32_t bytes) {
  const uint32_t warp = actor.thread / kLanes, now = order_.now(warp);
  Reader& reader = readers_[warp];
  uint32_t undefined = 0;
  check_all_written("read", actor, offset, bytes, false);
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t mask, uint32_t first) {
    const uint32_t missing = writes_[cell].undefined & mask;
    if (missing) undefined |= (missing >> (offset + first) % kCellBytes) << first;
    Read& read = reader.reads[cell];
    const bool joins = read.clock == now && read.who != actor.thread;
    read = {now, actor.line, joins ? kSeveral : actor.thread};
  });
  reader.note(offset, bytes, now);
  return undefined;
}

void SharedShadow::check_written(const char* what, Actor actor, uint32_t cell) const {
  const Write& write = writes_[cell];
  if (write.copying) race(what, actor, cell, "a cp.async may still be writing it", write.who, write.line);
  if (!write.clock || write.who == actor.thread) return;
  if (!order_.ordered(write.who, write.clock, actor.thread / kLanes)) {
    race(what, actor, cell, "written", write.who, write.line);
  }
}

void SharedShadow::check_proxy(const char* what, Actor actor, uint32_t cell) const {
  const Write& write = writes_[cell];
  if (!write.clock || write.who >= kFirstAgent) return;
  if (!order_.fenced(write.who, write.clock, actor.thread / kLanes)) {
    race(what, actor, cell, "written", write.who, write.line, "no fence.proxy.async is between the two");
  }
}

void SharedShadow::check_all_written(const char* what, Actor actor, uint32_t offset, uint32_t bytes, bool async) const {
  const Write* checked = nullptr;
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t, uint32_t) {
    const Write& write = writes_[cell];
    const bool alike = checked != nullptr && write.clock == checked->clock && write.who == checked->who &&
                       write.copying == checked->copying;
    if (alike) return;
    check_written(what, actor, cell);
    if (async) check_proxy(what, actor, cell);
    checked = &write;
  });
}

void SharedShadow::check_write(Actor actor, uint32_t offset, uint32_t bytes, bool async) const {
  const uint32_t warp = actor.thread / kLanes;
  const uint32_t first = offset / kCellBytes, last = (offset + bytes - 1) / kCellBytes;
  check_all_written("write", actor, offset, bytes, async);
  for (const Reader& reader : readers_) {
    for (uint32_t cell = first; cell <= last; ++cell) {
      const uint32_t newest = reader.newest[cell / kStretch];
      if (!newest || order_.ordered(reader.who, newest, warp)) {
        cell |= kStretch - 1;  // all of this stretch
        continue;
      }
      const Read& read = reader.reads[cell];
      if (!read.clock || read.who == actor.thread || order_.ordered(reader.who, read.clock, warp)) continue;
      race("write", actor, cell, "read", read.who == kSeveral ? reader.who : read.who, read.line);
    }
  }
}

void SharedShadow::write(Actor actor, uint32_t offset, uint32_t bytes, uint32_t undefined) {
  const uint32_t now = order_.now(actor.thread / kLanes);
  check_write(actor, offset, bytes);
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t mask, uint32_t first) {
    const uint32_t missing = undefined >> first << (offset + first) % kCellBytes;
    const uint32_t left = (writes_[cell].undefined & ~mask) | (missing & mask);
    writes_[cell] = {now, actor.line, static_cast<uint16_t>(actor.thread), false, static_cast<uint8_t>(left)};
  });
}

void SharedShadow::begin_copy(Actor actor, uint32_t offset, uint32_t bytes) {
  check_write(actor, offset, bytes);
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t, uint32_t) {
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

uint32_t SharedShadow::read_async(Actor actor, Agent agent, uint32_t clock, uint32_t offset, uint32_t bytes) {
  const uint32_t who = agent_of(actor.thread / kLanes, agent);
  Reader& reader = reader_of(who);
  uint32_t undefined = 0;
  check_all_written("read", actor, offset, bytes, true);
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t mask, uint32_t first) {
    const uint32_t missing = writes_[cell].undefined & mask;
    if (missing) undefined |= (missing >> (offset + first) % kCellBytes) << first;
    reader.reads[cell] = {clock, actor.line, who};
  });
  reader.note(offset, bytes, clock);
  return undefined;
}

void SharedShadow::begin_tensor_copy(Actor actor, uint32_t mbarrier, uint32_t phase, uint32_t offset, uint32_t bytes) {
  check_write(actor, offset, bytes, true);
  each_cell(offset, bytes, [&](uint32_t cell, uint32_t, uint32_t) {
    writes_[cell] = {phase, actor.line, static_cast<uint16_t>(kFirstMbarrier + mbarrier), false, kAllBytes};
  });
}

void SharedShadow::end_tensor_copy(uint32_t offset, uint32_t bytes, uint32_t undefined) {
  each_cell(offset, bytes,
            [&](uint32_t cell, uint32_t, uint32_t first) { writes_[cell].undefined = undefined >> first & kAllBytes; });
}

void SharedShadow::race(const char* what, Actor actor, uint32_t cell, const char* earlier, uint32_t who, int line,
                        const char* why) const {
  std::string by;
  if (who < kFirstAgent) {
    by = fmt::format("warp {}, lane {}", who / kLanes, who % kLanes);
  } else if (who < kFirstMbarrier) {
    const bool wgmma = who < agent_of(0, Agent::Bulk);
    by = fmt::format("a {} of warp {}", wgmma ? "wgmma" : "bulk copy", (who - kFirstAgent) % kMostWarps);
  } else {
    by = "a tensor copy";
  }
  throw Trap(Check::Race, fmt::format("{} of shared address {:#x}, lane {}: {} by {} at line {}; {}", what,
                                      kSharedBase + kCellBytes * cell, actor.thread % kLanes, earlier, by, line, why));
}

}  // namespace stratum::emulator
