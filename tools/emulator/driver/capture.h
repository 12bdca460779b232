// Capture of streams: their work becomes nodes of a graph.
#pragma once

#include <cstdint>
#include <thread>

#include "driver/queue.h"

namespace stratum::emulator::driver {

struct Event;
struct Graph;

enum CaptureMode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct Capture {
  uint64_t id;
  int mode;
  std::thread::id thread;  // that began it
  Stream* origin;
  Graph* graph;
  bool broken = false;
};

// A call that captures may forbid is about to be made by this thread: breaks those that forbid it. True if there are
// any.
bool break_captures(State& s);

// Whether work in the stream would come after captured work: it is the legacy stream and a blocking one is captured.
bool implicitly_captured(const State& s, const Stream& stream);

Result begin_capture(State& s, Stream& stream, int mode);
// The graph is null unless the result is kSuccess.
Result end_capture(State& s, Stream& stream, Graph** graph);

// The stream comes after what an event that was recorded in a capture stands for, and so takes part in the capture.
Result join_capture(State& s, Stream& stream, const Event& event);

}  // namespace stratum::emulator::driver
