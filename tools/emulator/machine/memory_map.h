// Global memory as a launch may use it: allocations, and the arrays that a call was given, by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stratum::emulator {

// What is known of a byte. Memory that is fresh is Unwritten.
enum Byte : uint8_t { kUnwritten = 0, kWritten = 1, kReleased = 2 };

// One axis of an array, in bytes. Negative strides and strides of 0 are legal.
struct Axis {
  int64_t extent, stride;
};

struct Region {
  std::string name;        // for messages: "k", "allocation 3"
  uint64_t first, bytes;   // all that lies between the first and the last byte
  std::vector<Axis> axes;  // of an array that doesn't fill it; empty: all of it
  bool writable = true;
  bool freed = false;
  uint8_t* state = nullptr;  // a Byte for each byte; null: all written, and writes leave no trace

  // Whether those bytes are elements of the array.
  bool holds(uint64_t address, uint64_t size) const;
};

class MemoryMap {
 public:
  // An array of the call. Where it lies in an allocation, that is the caller's, and only the call's arrays in it may be
  // used.
  void add_array(Region array);
  void add_allocation(Region allocation);
  // After the last was added, before the first is looked up.
  void prepare();

  // The region that has all these bytes; null if there is none.
  const Region* find(uint64_t address, uint64_t size) const;
  // For a message: where the bytes are, "64 bytes behind k (4096 bytes)".
  std::string describe(uint64_t address, uint64_t size) const;

 private:
  std::vector<Region> arrays_, allocations_;  // the latter sorted by address
  std::vector<bool> callers_;                 // of each allocation: whether an array lies in it
};

}  // namespace stratum::emulator
