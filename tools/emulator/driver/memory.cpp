#include "driver/memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

// Fresh memory, which takes room only where it is touched; null if there is none.
void* map_pages(size_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

size_t Allocation::mapped_bytes() const { return (bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes; }

std::string describe(const Allocation& allocation) {
  return "allocation " + std::to_string(allocation.call_number) + " (" + allocation.function + ", " +
         std::to_string(allocation.bytes) + " bytes)";
}

std::map<uintptr_t, Allocation>::iterator Memory::find_entry(uintptr_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return allocations.end();
  --next;
  return address - next->first < next->second.bytes ? next : allocations.end();
}

Allocation* Memory::find(uintptr_t address) {
  const auto found = find_entry(address);
  return found == allocations.end() ? nullptr : &found->second;
}

const Allocation* Memory::find(uintptr_t address) const { return const_cast<Memory*>(this)->find(address); }

bool Memory::holds(uintptr_t address, size_t bytes) const {
  const Allocation* first = find(address);
  return first != nullptr && first->live && !first->given_back && bytes > 0 && first == find(address + bytes - 1);
}

size_t Memory::used(const Device& device) const {
  size_t bytes = 0;
  for (const auto& [address, one] : allocations) {
    if (one.live && one.kind != Allocation::Kind::Pinned && one.device == &device) bytes += one.bytes;
  }
  return bytes;
}

Result allocate(State& s, Device& device, const char* function, Allocation::Kind kind, Pool* pool, size_t bytes,
                uint64_t* address) {
  if (bytes == 0) return s.refuse(kInvalidValue, std::string(function) + ": bytes: expected at least 1, got 0");
  if (kind != Allocation::Kind::Pinned && bytes > device.facts.memory_bytes - s.memory.used(device)) {
    return kOutOfMemory;
  }
  Allocation allocation{.bytes = bytes,
                        .kind = kind,
                        .device = &device,
                        .pool = pool,
                        .call_number = s.call_number,
                        .function = function};
  auto* memory = static_cast<uint8_t*>(map_pages(allocation.mapped_bytes() + 2 * kGuardBytes, PROT_NONE));
  if (memory == nullptr) return kOutOfMemory;
  mprotect(memory + kGuardBytes, allocation.mapped_bytes(), PROT_READ | PROT_WRITE);
  *address = reinterpret_cast<uint64_t>(memory + kGuardBytes);
  s.memory.allocations[*address] = std::move(allocation);
  if (pool != nullptr) pool->most_used = std::max(pool->most_used, pool->used += bytes);
  return kSuccess;
}

void unmap(State& s, uintptr_t address) {
  Allocation& allocation = s.memory.allocations.at(address);
  allocation.live = false;
  if (allocation.pool != nullptr) allocation.pool->used -= allocation.bytes;
  constexpr int kPages = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  mmap(reinterpret_cast<void*>(address), allocation.mapped_bytes(), PROT_NONE, kPages, -1, 0);
  s.shadows.drop(address);
}

namespace {

// The allocation that begins at an address, marked as given back; null, and a fault, if it can't be.
Allocation* give_back(State& s, const char* function, uintptr_t address, bool pinned) {
  const auto entry = s.memory.allocations.find(address);
  const auto fault = [&](const char* text) { s.fault(std::string(function) + text); };
  if (entry == s.memory.allocations.end()) return fault(" of an address that was never allocated"), nullptr;
  Allocation& allocation = entry->second;
  const bool is_pinned = allocation.kind == Allocation::Kind::Pinned;
  if (is_pinned != pinned) return fault(is_pinned ? " of page-locked memory" : " of device memory"), nullptr;
  if (!allocation.is_held()) return fault(" of memory that is free already"), nullptr;
  const bool read = std::erase_if(s.copies, [&](const PinnedCopy& copy) {
                      return s.memory.find(reinterpret_cast<uintptr_t>(copy.source)) == &allocation;
                    }) > 0;
  if (read) fault(" of page-locked memory that a copy may be reading");
  allocation.given_back = true;
  return &allocation;
}

// A captured free. The memory stays: the graph has it again when it is launched again.
Result free_in_graph(State& s, Stream& stream, uintptr_t address) {
  const auto entry = s.memory.allocations.find(address);
  if (entry == s.memory.allocations.end() || !entry->second.of_graph || !entry->second.is_held()) {
    return s.refuse(kInvalidValue, "cuMemFreeAsync in a capture of memory that no graph allocated, or that is free");
  }
  entry->second.freed_in_graph = true;
  return submit(s, stream, {WorkKind::Free, [] { return kSuccess; }});
}

}  // namespace

extern "C" {

Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  return unsafe_call("cuMemAlloc_v2", [&](State& s, Device& device) {
    return allocate(s, device, "cuMemAlloc_v2", Allocation::Kind::Device, nullptr, bytes, address);
  });
}

// Waits for the device's work, except for a pool's memory: there the driver trusts that nothing uses it any more.
Result cuMemFree_v2(uint64_t address) {
  return unsafe_call("cuMemFree_v2", [&](State& s, Device&) {
    const Allocation* allocation = give_back(s, "cuMemFree_v2", address, false);
    if (allocation == nullptr) return kInvalidValue;
    if (allocation->kind == Allocation::Kind::Device) run_all(s, *allocation->device);
    unmap(s, address);
    return kSuccess;
  });
}

Result cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  constexpr unsigned kKnown = 7;  // portable, device map, write-combined
  return unsafe_call("cuMemHostAlloc", [&](State& s, Device& device) {
    if ((flags & ~kKnown) != 0) return s.refuse(kInvalidValue, "cuMemHostAlloc: unknown flags");
    return allocate(s, device, "cuMemHostAlloc", Allocation::Kind::Pinned, nullptr, bytes,
                    reinterpret_cast<uint64_t*>(memory));
  });
}

Result cuMemFreeHost(void* memory) {
  return unsafe_call("cuMemFreeHost", [&](State& s, Device&) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const Allocation* allocation = give_back(s, "cuMemFreeHost", address, true);
    if (allocation == nullptr) return kInvalidValue;
    run_all(s, *allocation->device);
    unmap(s, address);
    return kSuccess;
  });
}

Result cuMemFreeAsync(uint64_t address, void* handle) {
  return stream_call("cuMemFreeAsync", handle, [&](State& s, Stream& stream) -> Result {
    if (stream.capture) return free_in_graph(s, stream, address);
    if (give_back(s, "cuMemFreeAsync", address, false) == nullptr) return kInvalidValue;
    return submit(s, stream, {WorkKind::Free, [&s, address] {
                                unmap(s, address);
                                return kSuccess;
                              }});
  });
}

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  return context_call("cuMemGetInfo_v2", [&](State& s, Device& device) {
    *total = device.facts.memory_bytes;
    *free = *total - s.memory.used(device);
    return kSuccess;
  });
}

Result cuPointerGetAttribute(void* data, int attribute, uint64_t pointer) {
  constexpr int kContext = 1, kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kManaged = 8, kOrdinal = 9,
                kRangeStart = 11, kRangeBytes = 12;
  constexpr unsigned kHost = 1, kDevice = 2;
  return context_call("cuPointerGetAttribute", [&](State& s, Device&) {
    const auto entry = s.memory.find_entry(pointer);
    if (entry == s.memory.allocations.end() || entry->second.given_back)
      return kInvalidValue;  // as of any memory that the driver didn't give
    const auto& [first, found] = *entry;
    const bool pinned = found.kind == Allocation::Kind::Pinned;
    switch (attribute) {
      case kContext:
        *static_cast<Context**>(data) = &found.device->context;
        return kSuccess;
      case kMemoryType:
        *static_cast<unsigned*>(data) = pinned ? kHost : kDevice;
        return kSuccess;
      case kDevicePointer:
        *static_cast<uint64_t*>(data) = pointer;
        return kSuccess;
      case kHostPointer:
        if (!pinned) return kInvalidValue;
        *static_cast<uint64_t*>(data) = pointer;
        return kSuccess;
      case kManaged:
        *static_cast<int*>(data) = 0;
        return kSuccess;
      case kOrdinal:
        *static_cast<int*>(data) = found.device->context.device;
        return kSuccess;
      case kRangeStart:
        *static_cast<uint64_t*>(data) = first;
        return kSuccess;
      case kRangeBytes:
        *static_cast<size_t*>(data) = found.bytes;
        return kSuccess;
      default:
        return s.refuse(kNotSupported,
                        "cuPointerGetAttribute: attribute " + std::to_string(attribute) + " isn't emulated");
    }
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
