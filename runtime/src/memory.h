// Device and pinned memory with an owner, and the count of what an engine holds.
#pragma once

#include <cstdint>
#include <optional>

#include "driver.h"

namespace stratum {

// Bytes of device memory held, against memory_limit_bytes.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::optional<int64_t> limit) : limit_(limit) {}

  // Counts `bytes`, or throws Error (MEMORY_LIMIT) and counts nothing.
  void add(int64_t bytes);
  void remove(int64_t bytes) { held_ -= bytes; }

  int64_t held() const { return held_; }
  int64_t peak() const { return peak_; }
  std::optional<int64_t> limit() const { return limit_; }

 private:
  std::optional<int64_t> limit_;
  int64_t held_ = 0, peak_ = 0;
};

// Device memory of the current context, counted while it lives. Destroyed with that context current.
class DeviceBuffer {
 public:
  // Zero bytes allocate nothing.
  DeviceBuffer(MemoryAccount& account, int64_t bytes);
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  cuda::DevicePointer data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // A pointer for kernel parameters, `offset` bytes into the buffer.
  template <typename T = void>
  T* pointer(int64_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  MemoryAccount& account_;
  cuda::DevicePointer data_ = 0;
  int64_t bytes_;
};

// Page-locked host memory, which the device can copy from while the host goes on.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(int64_t bytes);
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

// An event without timing.
class EventHandle {
 public:
  EventHandle();
  EventHandle(EventHandle&& other) noexcept;
  EventHandle& operator=(EventHandle&&) = delete;
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  ~EventHandle();

  cuda::Event get() const { return event_; }

 private:
  cuda::Event event_ = nullptr;
};

}  // namespace stratum
