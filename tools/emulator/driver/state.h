// Everything that the driver knows. One mutex guards it; every call holds it from beginning to end (call.h).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "driver/devices.h"
#include "driver/graphs.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/observed.h"
#include "driver/queue.h"
#include "driver/results.h"
#include "driver/settings.h"

namespace stratum::emulator::driver {

struct Context {
  int device;
};

struct Device {
  Device(int ordinal, const DeviceFacts& facts);

  const DeviceFacts facts;
  Context context;            // the primary one
  int retained = 0;           // how often
  Result sticky = kSuccess;   // after a kernel's fault, what every later call returns
  Stream legacy, per_thread;  // the default streams
  Pool default_pool;
  Pool* pool = &default_pool;  // that cuMemAllocAsync takes from
};

struct Module {
  Device* device;
  std::string image;
};

struct Function {
  Module* module;
  std::string name;
  int max_dynamic_shared = kDefaultSharedPerBlock;
  bool any_cluster = false;  // larger clusters than every device takes
  bool loaded = false;
};

struct Event {
  Device* device;
  bool timed = true;
  Point at = {};                                    // of the last record
  std::chrono::steady_clock::time_point when = {};  // it was reached
  std::shared_ptr<Capture> capture = {};            // it was last recorded in
  std::vector<Node*> captured = {};                 // and after which nodes
};

// A copy out of page-locked memory that nobody has waited for.
struct PinnedCopy {
  const uint8_t* source;
  std::vector<uint8_t> content;  // when the copy was queued
  Point at;
};

struct Launch {
  std::string kernel;
  std::vector<uint8_t> params;
  uint64_t stream = 0;  // as the caller named it
  uint32_t grid[3] = {}, block[3] = {};
  uint32_t shared_bytes = 0;
  int device = 0;
  bool captured = false;
  uint32_t cluster[3] = {1, 1, 1};
  bool cooperative = false;
  std::shared_ptr<ObservedCall> call = {};  // of the engine, that made it; null if none did
};

struct State {
  State();

  std::mutex mutex;
  const Settings settings;
  const pid_t process;
  bool initialized = false;
  bool execute;  // kernels are run
  std::vector<std::unique_ptr<Device>> devices;
  Memory memory;
  Shadows shadows;  // of device memory
  Objects<Pool> pools;
  Objects<Module> modules;
  Objects<Function> functions;
  Objects<Stream> streams;
  Objects<Event> events;
  Objects<Graph> graphs;
  Objects<GraphExec> execs;
  std::vector<std::shared_ptr<Capture>> captures;  // those in progress
  std::vector<PinnedCopy> copies;
  uint64_t operations = 0, next_stream_id = 100, next_capture_id = 1;
  std::mt19937_64 random;

  std::vector<std::shared_ptr<const Launch>> launches;
  std::vector<std::string> faults;
  std::map<std::string, int64_t> calls;
  int64_t call_number = 0;  // since the process began
  Failure failure;

  // Notes what the program did wrong, and prints it.
  void fault(std::string text);
  // The same, and returns the code.
  Result refuse(Result code, std::string text);
  // The default streams and all that were made, destroyed ones too: their work may still be queued.
  std::vector<Stream*> streams_of(const Device& device) const;
  // The stream of a handle; null if there is none on the device, with a fault that names the function if one is given.
  Stream* find_stream(Device& device, const void* handle, const char* function);
};

State& state();

// Of the calling thread.
struct ThreadState {
  std::vector<Context*> contexts;      // the current one last
  int capture_mode = 0;                // global
  std::shared_ptr<ObservedCall> call;  // of the engine, that this thread is in
};
ThreadState& thread_state();

}  // namespace stratum::emulator::driver
