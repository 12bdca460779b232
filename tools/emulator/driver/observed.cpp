#include "driver/observed.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "driver/capture.h"
#include "driver/state.h"

namespace stratum::emulator::driver {
namespace {

// Elements of the array as a list of indices, first to last: calls f(index, address) until it returns false.
template <class F>
void each_element(const ObservedArray& array, F f) {
  std::vector<int64_t> index(array.shape.size());
  if (std::ranges::any_of(array.shape, [](int64_t extent) { return extent == 0; })) return;
  for (;;) {
    int64_t at = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * array.stride[axis];
    if (!f(index, array.address + static_cast<uint64_t>(at * array.element_bytes))) return;
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == array.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// The sum over the axes that go up, or of those that go down, from the first element.
int64_t reach(const ObservedArray& array, bool up) {
  int64_t elements = 0;
  for (size_t axis = 0; axis < array.shape.size(); ++axis) {
    if ((array.stride[axis] > 0) == up) elements += (array.shape[axis] - 1) * array.stride[axis];
  }
  return elements * array.element_bytes;
}

void set_shadow(State& s, uint64_t address, size_t bytes, Byte what) {
  const auto found = s.memory.find_entry(address);
  if (found == s.memory.allocations.end() || !found->second.live) return;
  s.shadows.set(found->first, found->second.bytes, address, bytes, what);
}

// Runs f when the stream's work that is queued by now has run. A stream that is being captured has none.
void in_order(State& s, void* handle, const std::function<void()>& f) {
  const auto& contexts = thread_state().contexts;
  if (contexts.empty()) return f();
  Stream* stream = s.find_stream(*s.devices[static_cast<size_t>(contexts.back()->device)], handle, nullptr);
  if (stream == nullptr || stream->capture || implicitly_captured(s, *stream)) return f();
  enqueue(s, *stream, [f] { return f(), kSuccess; });
}

// Makes bytes of an anonymous mapping unwritten. Whole pages are given back and read as zeros again, so that a pool of
// many gigabytes stays address space.
void forget(uint8_t* begin, uint8_t* end) {
  static_assert(kUnwritten == 0);
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* const first = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page);
  auto* const last = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(end) / page * page);
  if (first >= last || madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED) != 0) {
    std::fill(begin, end, uint8_t{kUnwritten});
    return;
  }
  std::fill(begin, first, uint8_t{kUnwritten});
  std::fill(last, end, uint8_t{kUnwritten});
}

}  // namespace

uint64_t ObservedArray::first() const { return address + static_cast<uint64_t>(reach(*this, false)); }

uint64_t ObservedArray::bytes() const {
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent == 0; })) return 0;
  return static_cast<uint64_t>(reach(*this, true) - reach(*this, false) + element_bytes);
}

Region ObservedArray::region() {
  // Not before a kernel runs: a call of any extents may still be refused.
  if (written) state.resize(bytes(), kUnwritten);
  Region region{.name = name,
                .first = first(),
                .bytes = bytes(),
                .axes = {},
                .writable = written,
                .freed = false,
                .state = written ? state.data() : nullptr};
  for (size_t axis = 0; axis < shape.size(); ++axis) region.axes.push_back({shape[axis], stride[axis] * element_bytes});
  return region;
}

uint8_t* Shadows::of(uint64_t first, size_t bytes) {
  const auto [place, is_new] = shadows_.try_emplace(first, Shadow{nullptr, bytes});
  if (is_new) {
    // Only what is touched takes memory: allocations of many gigabytes are legal.
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    place->second.bytes = static_cast<uint8_t*>(memory);
  }
  return place->second.bytes;
}

void Shadows::set(uint64_t first, size_t allocation_bytes, uint64_t address, size_t bytes, Byte what) {
  uint8_t* const state = of(first, allocation_bytes) + (address - first);
  if (what == kUnwritten) {
    forget(state, state + bytes);
  } else {
    std::fill_n(state, bytes, static_cast<uint8_t>(what));
  }
}

void Shadows::drop(uint64_t first) {
  const auto found = shadows_.find(first);
  if (found == shadows_.end()) return;
  munmap(found->second.bytes, found->second.size);
  shadows_.erase(found);
}

void mark_written(State& s, uint64_t address, size_t bytes) { set_shadow(s, address, bytes, kWritten); }

MemoryMap memory_of(State& s, ObservedCall* call) {
  MemoryMap map;
  if (call != nullptr) {
    for (ObservedArray& array : call->arrays)
      if (array.bytes() > 0) map.add_array(array.region());
  }
  for (const auto& [first, allocation] : s.memory.allocations) {
    // Kernels may read page-locked memory too; who wrote what there, the host knows alone.
    const bool pinned = allocation.kind == Allocation::Kind::Pinned;
    map.add_allocation({.name = allocation.name.empty() ? describe(allocation) : allocation.name,
                        .first = first,
                        .bytes = allocation.bytes,
                        .axes = {},
                        .writable = !pinned,
                        .freed = !allocation.live,
                        .state = allocation.live && !pinned ? s.shadows.of(first, allocation.bytes) : nullptr});
  }
  map.prepare();
  return map;
}

void assume_written(State& s) {
  for (const auto& [first, allocation] : s.memory.allocations)
    if (allocation.live && allocation.kind != Allocation::Kind::Pinned) mark_written(s, first, allocation.bytes);
}

void check_written(State& s, const ObservedCall& call) {
  for (const ObservedArray& array : call.arrays) {
    if (!array.written) continue;
    int64_t missing = 0;
    std::vector<int64_t> where;
    each_element(array, [&](const std::vector<int64_t>& index, uint64_t address) {
      if (!array.state.empty()) {
        const uint8_t* state = array.state.data() + (address - array.first());
        if (std::all_of(state, state + array.element_bytes, [](uint8_t byte) { return byte == kWritten; })) return true;
      }
      if (missing++ == 0) where = index;
      return true;
    });
    if (missing == 0) continue;
    std::string place;
    for (const int64_t index : where) place += fmt::format("{}{}", place.empty() ? "" : ", ", index);
    s.fault(fmt::format("{}: output: {}[{}] was not written, nor were {} other elements, by {}", call.name, array.name,
                        place, missing - 1, fmt::join(call.kernels, ", ")));
  }
}

}  // namespace stratum::emulator::driver

using namespace stratum::emulator;
using namespace stratum::emulator::driver;

extern "C" {

void stratum_driver_call_begin(const char* name) {
  thread_state().call = std::make_shared<ObservedCall>(ObservedCall{.name = name, .arrays = {}, .unwatched = false});
}

void stratum_driver_call_array(const char* name, uint64_t address, int32_t element_bytes, int32_t rank,
                               const int64_t* shape, const int64_t* stride, int32_t written) {
  if (!thread_state().call) return;
  ObservedArray array{.name = name,
                      .address = address,
                      .element_bytes = element_bytes,
                      .shape = {shape, shape + rank},
                      .stride = {stride, stride + rank},
                      .written = written != 0,
                      .state = {}};
  thread_state().call->arrays.push_back(std::move(array));
}

void stratum_driver_call_end(void* stream, int32_t failed) {
  const std::shared_ptr<ObservedCall> call = std::exchange(thread_state().call, nullptr);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!call || failed || !s.execute) return;
  in_order(s, stream, [&s, call] {
    if (!call->unwatched) check_written(s, *call);
  });
}

void stratum_driver_name(uint64_t address, const char* name) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.memory.find_entry(address);
  if (found != s.memory.allocations.end()) found->second.name = name;
}

void stratum_driver_forget(uint64_t address, uint64_t bytes, void* stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  in_order(s, stream, [&s, address, bytes] { set_shadow(s, address, bytes, kUnwritten); });
}

void stratum_driver_forget_pages(uint64_t cache, uint64_t page_bytes, const uint8_t* used, uint64_t pages,
                                 void* stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.memory.find_entry(cache);
  if (found == s.memory.allocations.end()) return;
  // A page changes hands rarely; what it held is forgotten then, and only then.
  std::vector<uint8_t>& known = found->second.pages;
  known.resize(pages);
  for (uint64_t page = 0; page < pages; ++page) {
    if (known[page] == used[page]) continue;
    known[page] = used[page];
    in_order(s, stream, [&s, address = cache + page * page_bytes, page_bytes, what = used[page]] {
      set_shadow(s, address, page_bytes, what ? kUnwritten : kReleased);
    });
  }
}

}  // extern "C"
