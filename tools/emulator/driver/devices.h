// The pretended devices.
#pragma once

#include <cstddef>
#include <string>

namespace stratum::emulator::driver {

// What a device of a compute capability has; the largest data-centre part of it, or the only one.
struct DeviceFacts {
  int major, minor;
  int multiprocessors;
  int shared_per_multiprocessor;  // bytes
  int shared_per_block;           // bytes, at most, where a function asks for it
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  int l2_bytes;
  int clock_khz;
  size_t memory_bytes;
};

// Null for a compute capability that the emulator doesn't know.
const DeviceFacts* device_facts(int major, int minor);

// "7.5, 8.0, ...", for messages.
std::string known_capabilities();

// Of all devices.
inline constexpr int kWarp = 32;
inline constexpr int kMaxThreads = 1024;                  // a block
inline constexpr int kDefaultSharedPerBlock = 48 * 1024;  // dynamic and static, unless a function asks for more
inline constexpr int kRegisters = 64 * 1024;              // a multiprocessor, and a block
inline constexpr int kPortableCluster = 8;                // blocks

}  // namespace stratum::emulator::driver
