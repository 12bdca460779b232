// Queued work: streams are queues of operations, which run under the schedule that STRATUM_EMULATOR_SCHEDULE names.
//
// Every operation has a number, larger than those of all operations before it. An operation follows those before it in
// its stream and those that its `after` names, which all have smaller numbers: running in the order of numbers is
// always legal, and nothing can wait for ever.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "driver/results.h"

namespace stratum::emulator::driver {

struct Capture;
struct Device;
struct Function;
struct Launch;
struct Node;
struct State;
struct Stream;

// All operations of a stream up to one of them.
struct Point {
  Stream* stream = nullptr;
  uint64_t order = 0;
};

// What an operation does; a captured one becomes a node of a graph. The numbers are CUgraphNodeType's.
enum class WorkKind { Kernel = 0, Copy = 1, Set = 2, Graph = 4, Empty = 5, Allocate = 10, Free = 11 };
struct Work {
  WorkKind kind = WorkKind::Empty;
  std::function<Result()> run = {};
  Function* function = nullptr;               // of a kernel
  std::shared_ptr<const Launch> launch = {};  // of a kernel
};

struct Operation {
  uint64_t order;
  std::vector<Point> after;
  std::function<Result()> run;
};

struct Stream {
  Device* device;
  uint64_t id;
  bool blocking = true;  // ordered with the legacy stream
  int priority = 0;

  std::deque<Operation> queue = {};
  uint64_t last = 0;                          // the latest operation, run or not
  uint64_t waited = 0;                        // the host knows that everything up to here is done
  std::map<Stream*, uint64_t> follows = {};   // what every later operation comes after
  std::multimap<uint64_t, Point> waits = {};  // what operations came after, until the host has waited for it

  std::shared_ptr<Capture> capture = {};  // the one it takes part in
  std::vector<Node*> tail = {};           // what the next captured operation comes after
};

// Queues work on a stream, after what `after` says, or adds it to the graph if the stream is being captured. With the
// eager schedule it has run on return, and the result is its own.
Result submit(State& s, Stream& stream, Work work, std::vector<Point> after = {});

// Queues an operation, whether or not the stream is being captured.
Result enqueue(State& s, Stream& stream, std::function<Result()> run, std::vector<Point> after = {});

bool is_done(const Point& point);
// Runs what is queued up to a point, and all that this comes after.
void run_until(State& s, const Point& point);
void run_all(State& s, const Device& device);

// The host waits for a point: what is queued up to it runs. What copies out of page-locked memory read must still be
// what it was when they were queued.
void host_wait(State& s, const Point& point);
void host_wait_all(State& s, const Device& device);

// At each call of the driver, under the random schedule: runs some of the operations that may run.
void run_some(State& s);

}  // namespace stratum::emulator::driver
