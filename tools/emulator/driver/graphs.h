// Graphs: work and what it comes after, captured from streams.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "driver/queue.h"

namespace stratum::emulator::driver {

struct Node {
  Work work;
  std::vector<Node*> after;
  void* extra[5] = {};  // a kernel's parameters as one buffer, for those who ask
  size_t parameter_bytes = 0;
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes = {};  // each behind those that it comes after
};

struct GraphExec {
  Device* device;
  std::vector<Node> nodes;             // in the order of the graph's
  std::map<const Node*, size_t> from;  // the graph's nodes → theirs
};

// Adds work to the graph of the capture that the stream takes part in.
Result add_captured(State& s, Stream& stream, Work work);

}  // namespace stratum::emulator::driver
