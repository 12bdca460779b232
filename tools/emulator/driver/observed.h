// What the engine says about its calls (stratum_driver_*): which arrays a call was given, by name, and what memory
// holds nothing any more. Kernels are held to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "machine/memory_map.h"

namespace stratum::emulator::driver {

struct State;

// An array as the engine was given it.
struct ObservedArray {
  std::string name;
  uint64_t address;
  int64_t element_bytes;
  std::vector<int64_t> shape, stride;  // strides in elements
  bool written;                        // by the call, and whole
  std::vector<uint8_t> state;          // of what is written: a Byte for each byte from the first element to the last,
                                       // from the first launch on

  uint64_t first() const;  // the lowest address
  uint64_t bytes() const;  // to the end of the highest element; 0 if there is none
  Region region();
};

struct ObservedCall {
  std::string name;
  std::vector<ObservedArray> arrays;
  std::set<std::string> kernels = {};  // that were run
  bool unwatched = false;  // of a launch: it went into a graph, or ran without checks
};

// A byte for each byte of an allocation: whether somebody wrote it (machine/memory_map.h).
class Shadows {
 public:
  // That of an allocation; fresh memory is unwritten.
  uint8_t* of(uint64_t first, size_t bytes);
  // Notes what is known of a part of an allocation.
  void set(uint64_t first, size_t allocation_bytes, uint64_t address, size_t bytes, Byte what);
  void drop(uint64_t first);

 private:
  struct Shadow {
    uint8_t* bytes;
    size_t size;
  };
  std::map<uint64_t, Shadow> shadows_;
};

// Notes that the host or a copy has written to device memory.
void mark_written(State& s, uint64_t address, size_t bytes);

// Memory as a launch of the call may use it; a launch outside any call may use allocations only.
MemoryMap memory_of(State& s, ObservedCall* call);

// Takes all allocations for written: without checks nobody notes what a launch does write.
void assume_written(State& s);

// Faults for what the call should have written and has not.
void check_written(State& s, const ObservedCall& call);

}  // namespace stratum::emulator::driver
