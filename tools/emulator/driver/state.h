// The objects of the emulator.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "observed.h"

namespace stratum::emulator::driver {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kCaptureUnsupported = 900,
  kCaptureImplicit = 906,
};

struct Context {
  int device;
};

struct Module {
  int device;
  std::string image;
};

struct Function {
  Module* module;
  std::string name;
  int max_dynamic_shared = 48 * 1024;
  bool loaded = false;
};

struct Capture {
  bool broken = false;
};

struct Stream {
  int device;
  uint64_t id;
  std::optional<Capture> capture;
};

struct Event {
  int device;
  Stream* stream = nullptr;  // of the last record
  uint64_t order = 0;        // its place among all operations
};

// A range of memory made by one of the allocating functions. Freed ones are remembered and never reused, so that a use
// of theirs can be told.
struct Allocation {
  size_t bytes;
  bool pinned;
  bool live = true;
  std::string name = {};            // that the engine gave it
  std::vector<uint8_t> pages = {};  // of a cache: which of its pages are in use
};

// A copy out of page-locked memory that nobody has waited for.
struct Copy {
  const uint8_t* source;
  size_t bytes;
  Stream* stream;
  uint64_t order;
  std::vector<uint8_t> content;  // when the copy was queued
};

// A stream that waits for what an event stood for when the wait was queued.
struct Wait {
  Stream* stream;
  uint64_t order;
  Stream* awaited;
  uint64_t awaited_order;
};

struct Launch {
  std::string kernel;
  std::vector<uint8_t> params;
  uint64_t stream;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  int device;
  bool captured;
  std::shared_ptr<ObservedCall> call;  // of the engine, that made it; null if none did
};

struct Device {
  int major, minor;
  Context context;
  Stream default_stream, per_thread_stream;

  int max_dynamic_shared() const;
};

struct State {
  State();

  std::mutex mutex;
  pid_t process;
  bool initialized = false;
  bool execute = true;  // kernels are run
  std::vector<std::unique_ptr<Device>> devices;
  std::map<uintptr_t, Allocation> memory;  // by first byte
  Shadows shadows;  // of device memory
  std::set<Module*> modules;
  std::set<Function*> functions;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::vector<Copy> copies;
  std::vector<Wait> waits;
  uint64_t operations = 0, next_stream_id = 100;

  std::vector<std::unique_ptr<Launch>> launches;
  std::vector<std::string> faults;
  std::map<std::string, int64_t> calls;
  std::string fail_function;
  int64_t fail_in = 0;
  int fail_code = 0;

  void fault(std::string text);
  // The allocation that an address lies in, live or not; null if none.
  const Allocation* find(uintptr_t address) const;
  std::map<uintptr_t, Allocation>::iterator find_entry(uintptr_t address);  // end() if there is none
  bool capturing() const;
};

State& state();

// Of the calling thread.
struct ThreadState {
  std::vector<Context*> contexts;
  int capture_mode = 0;  // global
  std::shared_ptr<ObservedCall> call;  // of the engine, that this thread is in
};
ThreadState& thread_state();

}  // namespace stratum::emulator::driver
