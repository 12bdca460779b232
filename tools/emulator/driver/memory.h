// Device memory and page-locked memory, both memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "driver/results.h"

namespace stratum::emulator::driver {

struct Device;
struct State;

// Where cuMemAllocAsync takes memory from.
struct Pool {
  Device* device;
  int reuse[3] = {1, 1, 1};        // by event dependencies, opportunistic, by internal dependencies; nothing is reused
  uint64_t release_threshold = 0;  // bytes
  uint64_t used = 0, most_used = 0;
};

// A range of memory made by one of the allocating functions.
struct Allocation {
  enum class Kind { Device, Pool, Pinned };

  size_t bytes = 0;
  Kind kind = Kind::Device;
  Device* device = nullptr;
  Pool* pool = nullptr;     // of Kind::Pool
  int64_t call_number = 0;  // which call of the driver made it,
  std::string function;     // and by which function
  bool given_back = false;  // a freeing function was called for it
  // Made by a captured call: a graph's, which has it at the same address whenever it runs, and may free it itself.
  bool of_graph = false, freed_in_graph = false;
  bool live = true;                 // false once it is free
  std::string name = {};            // that the engine gave it
  std::vector<uint8_t> pages = {};  // of a cache: which of its pages are in use

  size_t mapped_bytes() const;
  bool is_held() const { return !given_back && !freed_in_graph; }
};

// Around each allocation there are as many bytes that nothing may touch.
inline constexpr size_t kGuardBytes = 4096;

// For messages: "allocation 37 (cuMemAlloc_v2, 4096 bytes)".
std::string describe(const Allocation& allocation);

// All allocations. Freed ones are remembered and their addresses never given out again, so that a use of them is told.
struct Memory {
  std::map<uintptr_t, Allocation> allocations;  // by first byte

  // The allocation that an address lies in, live or not; null if none.
  const Allocation* find(uintptr_t address) const;
  Allocation* find(uintptr_t address);
  std::map<uintptr_t, Allocation>::iterator find_entry(uintptr_t address);  // end() if there is none
  // Whether all bytes lie in one allocation that is neither free nor given back.
  bool holds(uintptr_t address, size_t bytes) const;
  // Bytes of live memory of a device, page-locked memory left out.
  size_t used(const Device& device) const;
};

// Makes memory; its address in *address.
Result allocate(State& s, Device& device, const char* function, Allocation::Kind kind, Pool* pool, size_t bytes,
                uint64_t* address);

// Takes memory out of use: what is left is the address, whose use is seen.
void unmap(State& s, uintptr_t address);

}  // namespace stratum::emulator::driver
