#include "staging.h"

#include "context.h"

namespace stratum {

StagingRing::StagingRing(int64_t slot_bytes)
    : slot_bytes_((slot_bytes + 15) / 16 * 16), memory_(kSlots * slot_bytes_) {}

std::byte* StagingRing::acquire() {
  Slot& slot = slots_[next_];
  if (slot.in_flight) {
    const cuda::RelaxedCapture relaxed;
    cuda::driver().event_synchronize(slot.event.get());
    slot.in_flight = false;
  }
  return memory_.data() + next_ * slot_bytes_;
}

void StagingRing::record(cuda::Stream stream) {
  Slot& slot = slots_[next_];
  cuda::driver().event_record(slot.event.get(), stream);
  slot.in_flight = true;
  last_event_ = slot.event.get();
  next_ = (next_ + 1) % kSlots;
}

}  // namespace stratum
