#include "driver/graphs.h"

#include <algorithm>
#include <utility>

#include "driver/call.h"
#include "driver/launch.h"

namespace stratum::emulator::driver {
namespace {

// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNodeParams {
  Function* function;
  uint32_t grid[3], block[3], shared_bytes;
  void** params;
  void** extra;
  void* kernel;
  Context* context;
};

Node* find_node(const State& s, const Node* handle) {
  for (Graph* graph : s.graphs.all(true)) {
    for (const auto& node : graph->nodes) {
      if (node.get() == handle) return node.get();
    }
  }
  return nullptr;
}

template <typename F>
Result kernel_node_call(const char* name, const Node* handle, F body) {
  return context_call(name, [&](State& s, Device&) -> Result {
    Node* node = find_node(s, handle);
    if (node == nullptr) return s.refuse(kInvalidHandle, std::string(name) + " of an unknown node");
    if (node->work.kind != WorkKind::Kernel) {
      return s.refuse(kInvalidValue, std::string(name) + " of a node that is no kernel's");
    }
    return body(s, *node);
  });
}

// Gives a node's work other parameters.
Result set_params(State& s, const KernelNodeParams& params, Work& work) {
  Function* function = s.functions.find(params.function);
  if (function == nullptr) return s.refuse(kInvalidHandle, "a node's parameters with an unknown function");
  LaunchConfig config = {.grid = {}, .block = {}, .shared_bytes = params.shared_bytes};
  std::copy_n(params.grid, 3, config.grid);
  std::copy_n(params.block, 3, config.block);
  std::copy_n(work.launch->cluster, 3, config.cluster);
  config.cooperative = work.launch->cooperative;
  std::shared_ptr<Launch> launch;
  const Result result = check_launch(s, *function, config, params.params, params.extra, &launch);
  if (result == kSuccess) work = kernel_work(s, function, launch);
  return result;
}

// The nodes in an order that is legal: the one of the capture, or a random one.
std::vector<size_t> order_of(State& s, const GraphExec& exec) {
  std::vector<size_t> order;
  std::vector<bool> done(exec.nodes.size());
  while (order.size() < exec.nodes.size()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < exec.nodes.size(); ++i) {
      const bool follows =
          std::ranges::all_of(exec.nodes[i].after, [&](const Node* before) { return done[exec.from.at(before)]; });
      if (!done[i] && follows) ready.push_back(i);
    }
    const size_t next = ready[s.settings.schedule == Schedule::Random ? s.random() % ready.size() : 0];
    done[next] = true;
    order.push_back(next);
  }
  return order;
}

Result instantiate(const char* name, GraphExec** exec, Graph* handle) {
  return unsafe_call(name, [&](State& s, Device& device) -> Result {
    const Graph* graph = s.graphs.find(handle);
    if (graph == nullptr) return s.refuse(kInvalidHandle, std::string(name) + " of an unknown graph");
    for (const auto& capture : s.captures) {
      if (capture->graph == graph) return s.refuse(kInvalidValue, std::string(name) + " of a graph being captured");
    }
    *exec = s.execs.make(GraphExec{&device, {}, {}});
    for (const auto& node : graph->nodes) {
      (*exec)->from[node.get()] = (*exec)->nodes.size();
      (*exec)->nodes.push_back(*node);
    }
    return kSuccess;
  });
}

}  // namespace

Result add_captured(State& s, Stream& stream, Work work) {
  if (stream.capture->broken) return s.refuse(kCaptureInvalidated, "work in a stream whose capture is broken");
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_unique<Node>(Node{std::move(work), stream.tail}));
  stream.tail = {nodes.back().get()};
  return kSuccess;
}

extern "C" {

Result cuGraphInstantiateWithFlags(GraphExec** exec, Graph* graph, unsigned long long flags) {
  if (flags == 0) return instantiate("cuGraphInstantiateWithFlags", exec, graph);
  return context_call("cuGraphInstantiateWithFlags", [&](State& s, Device&) {
    return s.refuse(kNotSupported, "cuGraphInstantiateWithFlags: flags: expected 0, others aren't emulated");
  });
}

Result cuGraphInstantiate_v2(GraphExec** exec, Graph* graph, Node** error_node, char* log, size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes > 0) *log = '\0';
  return instantiate("cuGraphInstantiate_v2", exec, graph);
}

Result cuGraphLaunch(GraphExec* handle, void* stream_handle) {
  return stream_call("cuGraphLaunch", stream_handle, [&](State& s, Stream& stream) -> Result {
    GraphExec* exec = s.execs.find(handle);
    if (exec == nullptr) return s.refuse(kInvalidHandle, "cuGraphLaunch of an unknown graph");
    if (exec->device != stream.device) return s.refuse(kInvalidValue, "cuGraphLaunch on another device's stream");
    std::vector<std::function<Result()>> runs;
    for (const size_t index : order_of(s, *exec)) {
      Work work = exec->nodes[index].work;
      if (work.kind == WorkKind::Kernel) {
        auto launch = std::make_shared<Launch>(*work.launch);
        launch->stream = reinterpret_cast<uint64_t>(stream_handle);
        launch->captured = stream.capture != nullptr;
        record(s, launch);
        work = kernel_work(s, work.function, std::move(launch));
      }
      runs.push_back(std::move(work.run));
    }
    return submit(s, stream, {WorkKind::Graph, [runs = std::move(runs)] {
                                for (const auto& run : runs) {
                                  if (const Result result = run(); result != kSuccess) return result;
                                }
                                return kSuccess;
                              }});
  });
}

Result cuGraphExecDestroy(GraphExec* handle) {
  return context_call("cuGraphExecDestroy", [&](State& s, Device&) {
    GraphExec* exec = s.execs.find(handle);
    if (exec == nullptr) return s.refuse(kInvalidHandle, "cuGraphExecDestroy of an unknown graph");
    s.execs.destroy(exec);
    return kSuccess;
  });
}

Result cuGraphDestroy(Graph* handle) {
  return context_call("cuGraphDestroy", [&](State& s, Device&) {
    Graph* graph = s.graphs.find(handle);
    if (graph == nullptr) return s.refuse(kInvalidHandle, "cuGraphDestroy of an unknown graph");
    for (const auto& capture : s.captures) {
      if (capture->graph == graph) return s.refuse(kInvalidValue, "cuGraphDestroy of a graph that is being captured");
    }
    s.graphs.destroy(graph);
    return kSuccess;
  });
}

// With nodes null: how many there are. Else as many as fit, the rest of the array null.
Result cuGraphGetNodes(Graph* handle, Node** nodes, size_t* count) {
  return context_call("cuGraphGetNodes", [&](State& s, Device&) {
    const Graph* graph = s.graphs.find(handle);
    if (graph == nullptr) return s.refuse(kInvalidHandle, "cuGraphGetNodes of an unknown graph");
    const size_t there = graph->nodes.size();
    if (nodes != nullptr) {
      for (size_t i = 0; i < *count; ++i) nodes[i] = i < there ? graph->nodes[i].get() : nullptr;
    }
    *count = nodes == nullptr ? there : std::min(*count, there);
    return kSuccess;
  });
}

Result cuGraphNodeGetType(const Node* handle, int* type) {
  return context_call("cuGraphNodeGetType", [&](State& s, Device&) {
    const Node* node = find_node(s, handle);
    if (node == nullptr) return s.refuse(kInvalidHandle, "cuGraphNodeGetType of an unknown node");
    *type = static_cast<int>(node->work.kind);
    return kSuccess;
  });
}

// With nodes null: how many there are.
Result cuGraphNodeGetDependencies(const Node* handle, Node** nodes, size_t* count) {
  return context_call("cuGraphNodeGetDependencies", [&](State& s, Device&) {
    const Node* node = find_node(s, handle);
    if (node == nullptr) return s.refuse(kInvalidHandle, "cuGraphNodeGetDependencies of an unknown node");
    const size_t there = node->after.size();
    if (nodes != nullptr) std::copy_n(node->after.begin(), std::min(*count, there), nodes);
    *count = nodes == nullptr ? there : std::min(*count, there);
    return kSuccess;
  });
}

// The parameters are given in `extra`, and are the node's until they are set.
Result cuGraphKernelNodeGetParams_v2(const Node* handle, KernelNodeParams* params) {
  return kernel_node_call("cuGraphKernelNodeGetParams_v2", handle, [&](State&, Node& node) {
    const Launch& launch = *node.work.launch;
    node.parameter_bytes = launch.params.size();
    void* const extra[] = {reinterpret_cast<void*>(1), const_cast<uint8_t*>(launch.params.data()),
                           reinterpret_cast<void*>(2), &node.parameter_bytes, nullptr};
    std::copy_n(extra, 5, node.extra);
    *params = {node.work.function, {}, {}, launch.shared_bytes, nullptr, node.extra, nullptr, nullptr};
    std::copy_n(launch.grid, 3, params->grid);
    std::copy_n(launch.block, 3, params->block);
    return kSuccess;
  });
}

Result cuGraphKernelNodeSetParams_v2(const Node* handle, const KernelNodeParams* params) {
  return kernel_node_call("cuGraphKernelNodeSetParams_v2", handle,
                          [&](State& s, Node& node) { return set_params(s, *params, node.work); });
}

Result cuGraphExecKernelNodeSetParams_v2(GraphExec* exec_handle, const Node* handle, const KernelNodeParams* params) {
  return kernel_node_call("cuGraphExecKernelNodeSetParams_v2", handle, [&](State& s, Node& node) -> Result {
    GraphExec* exec = s.execs.find(exec_handle);
    if (exec == nullptr || !exec->from.contains(&node)) {
      return s.refuse(kInvalidHandle, "cuGraphExecKernelNodeSetParams_v2 of an unknown graph, or another graph's node");
    }
    return set_params(s, *params, exec->nodes[exec->from.at(&node)].work);
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
