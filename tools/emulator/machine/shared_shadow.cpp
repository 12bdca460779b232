#include "machine/shared_shadow.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/trap.h"

namespace stratum::emulator {
namespace {

// Calls f(word, its bytes among those of the access as a mask, the first of them) for every word that is touched.
template <class F>
void each_word(uint32_t offset, uint32_t bytes, F f) {
  for (uint32_t at = 0; at < bytes;) {
    const uint32_t in_word = (offset + at) % 4, count = std::min(4 - in_word, bytes - at);
    f((offset + at) / 4, ((1u << count) - 1) << in_word, at);
    at += count;
  }
}

}  // namespace

SharedShadow::SharedShadow(const Order& order, uint32_t bytes)
    : order_(order), writes_((bytes + 3) / 4), reads_(order.warps()) {
  for (std::vector<Read>& reads : reads_) reads.resize(writes_.size());
}

void SharedShadow::reset() {
  std::ranges::fill(writes_, Write{});
  for (std::vector<Read>& reads : reads_) std::ranges::fill(reads, Read{});
}

uint32_t SharedShadow::read(Actor actor, uint32_t offset, uint32_t bytes) {
  const uint32_t warp = actor.thread / kLanes, now = order_.now(warp);
  uint32_t undefined = 0;
  each_word(offset, bytes, [&](uint32_t word, uint32_t mask, uint32_t first) {
    const Write& write = writes_[word];
    if (write.copying) race("read", actor, word, "a cp.async may still be writing it", write.thread, write.line);
    if (write.clock && write.thread != actor.thread && !order_.ordered(write.thread, write.clock, warp)) {
      race("read", actor, word, "written", write.thread, write.line);
    }
    const uint32_t missing = write.undefined & mask;
    if (missing) undefined |= (missing >> (offset + first) % 4) << first;
    Read& read = reads_[warp][word];
    const bool joins = read.clock == now && read.thread != actor.thread;
    read = {now, actor.line, joins ? kSeveral : actor.thread};
  });
  return undefined;
}

void SharedShadow::check_write(Actor actor, uint32_t word) const {
  const uint32_t warp = actor.thread / kLanes;
  const Write& write = writes_[word];
  if (write.copying) race("write", actor, word, "a cp.async may still be writing it", write.thread, write.line);
  if (write.clock && write.thread != actor.thread && !order_.ordered(write.thread, write.clock, warp)) {
    race("write", actor, word, "written", write.thread, write.line);
  }
  for (uint32_t by = 0; by < reads_.size(); ++by) {
    const Read& read = reads_[by][word];
    if (!read.clock || read.thread == actor.thread || order_.ordered(by * kLanes, read.clock, warp)) continue;
    race("write", actor, word, "read", read.thread == kSeveral ? by * kLanes : read.thread, read.line);
  }
}

void SharedShadow::write(Actor actor, uint32_t offset, uint32_t bytes, uint32_t undefined) {
  const uint32_t now = order_.now(actor.thread / kLanes);
  each_word(offset, bytes, [&](uint32_t word, uint32_t mask, uint32_t first) {
    check_write(actor, word);
    const uint32_t missing = undefined >> first << (offset + first) % 4;
    const uint32_t left = (writes_[word].undefined & ~mask) | (missing & mask);
    writes_[word] = {now, actor.line, static_cast<uint16_t>(actor.thread), false, static_cast<uint8_t>(left)};
  });
}

void SharedShadow::begin_copy(Actor actor, uint32_t offset, uint32_t bytes) {
  each_word(offset, bytes, [&](uint32_t word, uint32_t, uint32_t) {
    check_write(actor, word);
    writes_[word] = {order_.now(actor.thread / kLanes), actor.line, static_cast<uint16_t>(actor.thread), true, 0x0f};
  });
}

void SharedShadow::end_copy(Actor actor, uint32_t offset, uint32_t bytes, uint32_t undefined) {
  each_word(offset, bytes, [&](uint32_t word, uint32_t, uint32_t first) {
    writes_[word].copying = false;
    writes_[word].clock = order_.now(actor.thread / kLanes);
    writes_[word].undefined = undefined >> first & 0x0f;
  });
}

void SharedShadow::race(const char* what, Actor actor, uint32_t word, const char* earlier, uint32_t thread,
                        int line) const {
  throw Trap(Check::Race,
             fmt::format(
                 "{} of shared address {:#x}, lane {}: {} by warp {}, lane {} at line {}; nothing orders the two", what,
                 kSharedBase + 4 * word, actor.thread % kLanes, earlier, thread / kLanes, thread % kLanes, line));
}

}  // namespace stratum::emulator
