#include "memory.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace stratum {

using cuda::driver;

void MemoryAccount::add(int64_t bytes) {
  const int64_t limit = limit_.value_or(INT64_MAX);
  if (bytes > limit - held_) {
    fail(STRATUM_MEMORY_LIMIT, "memory_limit_bytes", "{} bytes are needed beyond the {} held, the limit is {}", bytes,
         held_, limit);
  }
  held_ += bytes;
  peak_ = std::max(peak_, held_);
}

DeviceBuffer::DeviceBuffer(MemoryAccount& account, int64_t bytes) : account_(account), bytes_(bytes) {
  if (bytes == 0) return;
  account_.add(bytes);
  try {
    driver().memory_allocate(&data_, static_cast<size_t>(bytes));
  } catch (...) {
    account_.remove(bytes);
    throw;
  }
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == 0) return;
  driver().memory_free.attempt(data_);
  account_.remove(bytes_);
}

PinnedBuffer::PinnedBuffer(int64_t bytes) { driver().host_allocate(&data_, static_cast<size_t>(bytes), 0); }

PinnedBuffer::~PinnedBuffer() { driver().host_free.attempt(data_); }

EventHandle::EventHandle() { driver().event_create(&event_, cuda::kEventDisableTiming); }

EventHandle::EventHandle(EventHandle&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

EventHandle::~EventHandle() {
  if (event_ != nullptr) driver().event_destroy.attempt(event_);
}

}  // namespace stratum
