// Page-locked memory through which a call's metadata reaches the device.
//
// A copy reads its slot when the device gets to it, long after the call that queued it returned. So there are several
// slots used in turn, each guarded by an event behind the work that its call queued. A slot is handed out again only
// after its event: a full ring makes the host wait, and nothing is overwritten early.
#pragma once

#include <array>
#include <cstdint>

#include "memory.h"

namespace stratum {

class StagingRing {
 public:
  static constexpr int kSlots = 4;

  explicit StagingRing(int64_t slot_bytes);

  // Waits until the next slot is free, and returns its memory.
  std::byte* acquire();

  // Marks the end of the work of the slot acquired last, on the stream that it was queued on. Until then the slot is
  // not used up: the next acquire() returns it again.
  void record(cuda::Stream stream);

  // The event recorded last, or null before the first.
  cuda::Event last_event() const { return last_event_; }

 private:
  struct Slot {
    EventHandle event;
    bool in_flight = false;
  };

  int64_t slot_bytes_;
  PinnedBuffer memory_;
  std::array<Slot, kSlots> slots_;
  int next_ = 0;
  cuda::Event last_event_ = nullptr;
};

}  // namespace stratum
