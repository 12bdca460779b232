// Copies and memsets.
#include <cstring>
#include <iterator>
#include <utility>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

enum class Side { Host, Device, Either };

struct Range {
  uint64_t address;
  Side side;
};

uint64_t address_of(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

// The name of what is wrong with a range of a copy, or null. Memory that the driver didn't give is the caller's.
const char* problem_of(const State& s, const Range& range, size_t bytes) {
  const Allocation* allocation = s.memory.find(range.address);
  if (range.side == Side::Device ? s.memory.holds(range.address, bytes)
                                 : allocation == nullptr || s.memory.holds(range.address, bytes)) {
    return nullptr;
  }
  return allocation != nullptr && allocation->given_back ? " of memory that was freed" : " outside an allocation";
}

const Allocation* pinned_at(const State& s, uint64_t address) {
  const Allocation* allocation = s.memory.find(address);
  return allocation != nullptr && allocation->kind == Allocation::Kind::Pinned ? allocation : nullptr;
}

// Pageable memory is the caller's, who may change it when the call returns.
bool is_pageable(const State& s, uint64_t address) { return s.memory.find(address) == nullptr; }

// Notes what a copy reads out of page-locked memory.
void note_pinned(State& s, Stream& stream, uint64_t source, size_t bytes) {
  const auto* from = reinterpret_cast<const uint8_t*>(source);
  for (const PinnedCopy& copy : s.copies) {
    if (from < copy.source + copy.content.size() && copy.source < from + bytes) {
      s.fault("page-locked memory is used again while a copy from it could be running");
    }
  }
  s.copies.push_back({from, {from, from + bytes}, {&stream, s.operations + 1}});
}

// A copy as an operation: what it reads is read when it runs, except from pageable memory, which is read now.
std::function<Result()> copying(State& s, const char* name, uint64_t target, uint64_t source, size_t bytes) {
  std::vector<uint8_t> content;
  if (is_pageable(s, source)) {
    const auto* from = reinterpret_cast<const uint8_t*>(source);
    content.assign(from, from + bytes);
  }
  return [&s, name, target, source, bytes, content = std::move(content)]() -> Result {
    const auto live = [&](uint64_t address) {
      const Allocation* allocation = s.memory.find(address);
      return allocation == nullptr || allocation->live;
    };
    if (!live(target) || (content.empty() && !live(source))) {
      return s.refuse(kIllegalAddress, std::string(name) + ": its memory was freed before it ran");
    }
    std::memmove(reinterpret_cast<void*>(target),
                 content.empty() ? reinterpret_cast<const void*>(source) : content.data(), bytes);
    mark_written(s, target, bytes);
    return kSuccess;
  };
}

Result check(State& s, const char* name, const Range& target, const Range& source, size_t bytes) {
  if (bytes == 0) return s.refuse(kInvalidValue, std::string(name) + " of no bytes");
  for (const Range& range : {target, source}) {
    const char* problem = problem_of(s, range, bytes);
    if (problem != nullptr) return s.refuse(kInvalidValue, std::string(name) + problem);
  }
  return kSuccess;
}

Result copy_async(const char* name, Range target, Range source, size_t bytes, void* handle) {
  return stream_call(name, handle, [&](State& s, Stream& stream) {
    if (const Result result = check(s, name, target, source, bytes); result != kSuccess) return result;
    if (pinned_at(s, source.address) != nullptr && !stream.capture) note_pinned(s, stream, source.address, bytes);
    const Result result = submit(s, stream, {WorkKind::Copy, copying(s, name, target.address, source.address, bytes)});
    // The driver writes pageable memory itself, and returns once it has.
    if (!is_pageable(s, target.address) || stream.capture) return result;
    host_wait(s, {&stream, stream.last});
    return stream.device->sticky;
  });
}

// A copy in the legacy stream. Between ranges of device memory the host doesn't wait for it.
Result copy(const char* name, Range target, Range source, size_t bytes) {
  return unsafe_call(name, [&](State& s, Device& device) {
    if (const Result result = check(s, name, target, source, bytes); result != kSuccess) return result;
    Stream& stream = device.legacy;
    const auto on_device = [&](uint64_t address) {
      return !is_pageable(s, address) && pinned_at(s, address) == nullptr;
    };
    const Result result = enqueue(s, stream, copying(s, name, target.address, source.address, bytes));
    if (on_device(target.address) && on_device(source.address)) return result;
    host_wait(s, {&stream, stream.last});
    return device.sticky;
  });
}

template <typename T>
Result set_async(const char* name, uint64_t address, T value, size_t count, void* handle) {
  return stream_call(name, handle, [&](State& s, Stream& stream) -> Result {
    if (count == 0) return s.refuse(kInvalidValue, std::string(name) + " of no bytes");
    if (address % sizeof(T) != 0) {
      return s.refuse(kInvalidValue,
                      std::string(name) + ": the address isn't a multiple of " + std::to_string(sizeof(T)));
    }
    const char* problem = problem_of(s, {address, Side::Device}, count * sizeof(T));
    if (problem != nullptr) return s.refuse(kInvalidValue, std::string(name) + problem);
    return submit(s, stream, {WorkKind::Set, [&s, name, address, value, count]() -> Result {
                                if (!s.memory.find(address)->live) {
                                  return s.refuse(kIllegalAddress,
                                                  std::string(name) + ": its memory was freed before it ran");
                                }
                                std::fill_n(reinterpret_cast<T*>(address), count, value);
                                mark_written(s, address, count * sizeof(T));
                                return kSuccess;
                              }});
  });
}

}  // namespace

extern "C" {

Result cuMemcpyHtoD_v2(uint64_t target, const void* source, size_t bytes) {
  return copy("cuMemcpyHtoD_v2", {target, Side::Device}, {address_of(source), Side::Host}, bytes);
}

Result cuMemcpyDtoH_v2(void* target, uint64_t source, size_t bytes) {
  return copy("cuMemcpyDtoH_v2", {address_of(target), Side::Host}, {source, Side::Device}, bytes);
}

Result cuMemcpyDtoD_v2(uint64_t target, uint64_t source, size_t bytes) {
  return copy("cuMemcpyDtoD_v2", {target, Side::Device}, {source, Side::Device}, bytes);
}

Result cuMemcpy(uint64_t target, uint64_t source, size_t bytes) {
  return copy("cuMemcpy", {target, Side::Either}, {source, Side::Either}, bytes);
}

Result cuMemcpyHtoDAsync_v2(uint64_t target, const void* source, size_t bytes, void* stream) {
  return copy_async("cuMemcpyHtoDAsync_v2", {target, Side::Device}, {address_of(source), Side::Host}, bytes, stream);
}

Result cuMemcpyDtoHAsync_v2(void* target, uint64_t source, size_t bytes, void* stream) {
  return copy_async("cuMemcpyDtoHAsync_v2", {address_of(target), Side::Host}, {source, Side::Device}, bytes, stream);
}

Result cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void* stream) {
  return copy_async("cuMemcpyDtoDAsync_v2", {target, Side::Device}, {source, Side::Device}, bytes, stream);
}

Result cuMemcpyAsync(uint64_t target, uint64_t source, size_t bytes, void* stream) {
  return copy_async("cuMemcpyAsync", {target, Side::Either}, {source, Side::Either}, bytes, stream);
}

Result cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void* stream) {
  return set_async<uint8_t>("cuMemsetD8Async", address, value, bytes, stream);
}

Result cuMemsetD32Async(uint64_t address, unsigned value, size_t words, void* stream) {
  return set_async<uint32_t>("cuMemsetD32Async", address, value, words, stream);
}

}  // extern "C"

}  // namespace stratum::emulator::driver
