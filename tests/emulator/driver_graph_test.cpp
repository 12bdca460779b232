// Graphs: captured work that runs when it is launched.
#include "driver_support.h"

TEST_CASE("captured work becomes a graph, which runs when it is launched") {
  const Device device;
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(device.set(5) == 0);
  CHECK(cuEventRecord(device.event, device.streams[0]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == 0);
  CHECK(device.set(6, 1) == 0);
  CHECK(cuEventRecord(device.event, device.streams[1]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[0], device.event, 0) == 0);
  void *graph = nullptr, *exec = nullptr;
  REQUIRE(cuStreamEndCapture(device.streams[0], &graph) == 0);
  size_t nodes = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes) == 0);
  CHECK(nodes == 2);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
  CHECK(cuGraphLaunch(exec, device.streams[0]) == 0);
  CHECK(device.now() == 0);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(device.now() == 6);
  CHECK(cuGraphExecDestroy(exec) == 0);
  CHECK(cuGraphDestroy(graph) == 0);
}

TEST_CASE("captures that are not whole have no graph") {
  const Device device;
  void* graph = nullptr;
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(cuEventRecord(device.event, device.streams[0]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == 0);
  CHECK(device.set(1, 1) == 0);
  CHECK(cuStreamEndCapture(device.streams[0], &graph) == kUnjoined);
  CHECK(graph == nullptr);
  CHECK(cuEventRecord(device.event, device.streams[1]) == 0);
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(cuStreamWaitEvent(device.streams[0], device.event, 0) == kIsolation);
  CHECK(cuStreamEndCapture(device.streams[0], &graph) == 901);
}

namespace {

// A kernel that stores a number, captured in a graph of its own.
struct Stored {
  explicit Stored(const Device& device) {
    uint64_t address = device.word;
    uint32_t value = 1;
    void* params[] = {&address, &value};
    REQUIRE(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
    REQUIRE(kernel.launch(1, 1, device.streams[0], params) == 0);
    REQUIRE(cuStreamEndCapture(device.streams[0], &graph) == 0);
    size_t count = 1;
    REQUIRE(cuGraphGetNodes(graph, &node, &count) == 0);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
  }
  ~Stored() {
    CHECK(cuGraphExecDestroy(exec) == 0);
    CHECK(cuGraphDestroy(graph) == 0);
  }
  unsigned result(const Device& device, void* of) const {
    CHECK(cuGraphLaunch(of, device.streams[0]) == 0);
    CHECK(cuStreamSynchronize(device.streams[0]) == 0);
    return device.now();
  }

  MadeKernel kernel{".param .u64 out, .param .u32 value",
                    "ld.param.u64 %rd0, [out]; ld.param.u32 %r0, [value]; st.global.u32 [%rd0], %r0;"};
  void *graph = nullptr, *node = nullptr, *exec = nullptr;
};

}  // namespace

TEST_CASE("a kernel's node tells its launch", "[random]") {
  const Device device;
  const Stored stored(device);
  int type = 9;
  CHECK(cuGraphNodeGetType(stored.node, &type) == 0);
  CHECK(type == 0);
  KernelNodeParams params = {};
  CHECK(cuGraphKernelNodeGetParams_v2(stored.node, &params) == 0);
  CHECK(params.function == stored.kernel.function);
  CHECK(params.grid[0] == 1);
  CHECK(params.block[0] == 1);
  REQUIRE(params.extra != nullptr);
  CHECK(*static_cast<const uint64_t*>(params.extra[1]) == device.word);
  CHECK(static_cast<const uint32_t*>(params.extra[1])[2] == 1);
  CHECK(*static_cast<const size_t*>(params.extra[3]) == 12);
  CHECK(emulator_launch_count() == 1);
  CHECK(stored.result(device, stored.exec) == 1);
  CHECK(emulator_launch_count() == 2);
  emulator_launch launch = {};
  CHECK(emulator_launch_get(1, &launch) == 1);
  CHECK(launch.captured == 0);
  CHECK(launch.stream == reinterpret_cast<uint64_t>(device.streams[0]));
}

TEST_CASE("parameters are set in a graph or in one that can be launched, not in both", "[random]") {
  const Device device;
  const Stored stored(device);
  uint64_t address = device.word;
  uint32_t value = 7;
  void* params[] = {&address, &value};
  KernelNodeParams given = {stored.kernel.function, {1, 1, 1}, {1, 1, 1}, 0, params, nullptr, nullptr, nullptr};
  CHECK(cuGraphKernelNodeSetParams_v2(stored.node, &given) == 0);
  CHECK(stored.result(device, stored.exec) == 1);
  value = 8;
  CHECK(cuGraphExecKernelNodeSetParams_v2(stored.exec, stored.node, &given) == 0);
  CHECK(stored.result(device, stored.exec) == 8);
  void* other = nullptr;
  REQUIRE(cuGraphInstantiateWithFlags(&other, stored.graph, 0) == 0);
  CHECK(stored.result(device, other) == 7);
  given.block[0] = 2000;
  CHECK(cuGraphExecKernelNodeSetParams_v2(other, stored.node, &given) == kInvalidValue);
  CHECK(stored.result(device, other) == 7);
  CHECK(cuGraphExecDestroy(other) == 0);
  CHECK(cuGraphLaunch(other, device.streams[0]) == kInvalidHandle);
  CHECK(last_fault() == "cuGraphLaunch of an unknown graph");
}

TEST_CASE("parameters that are changed after a launch are the next one's", "[random]") {
  const Device device;
  const Stored stored(device);
  uint64_t address = device.word;
  uint32_t value = 2;
  void* params[] = {&address, &value};
  const KernelNodeParams given = {stored.kernel.function, {1, 1, 1}, {1, 1, 1}, 0, params, nullptr, nullptr, nullptr};
  CHECK(cuGraphLaunch(stored.exec, device.streams[0]) == 0);
  CHECK(cuGraphExecKernelNodeSetParams_v2(stored.exec, stored.node, &given) == 0);
  CHECK(cuStreamSynchronize(device.streams[0]) == 0);
  CHECK(device.now() == 1);
  CHECK(stored.result(device, stored.exec) == 2);
}

TEST_CASE("nodes know what they come after", "[random]") {
  const Device device;
  void *graph = nullptr, *before[3] = {};
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(device.set(1) == 0);
  CHECK(cuEventRecord(device.event, device.streams[0]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == 0);
  CHECK(device.set(2, 1) == 0);
  CHECK(cuEventRecord(device.event, device.streams[1]) == 0);
  CHECK(device.set(3, 0) == 0);
  CHECK(cuStreamWaitEvent(device.streams[0], device.event, 0) == 0);
  CHECK(device.set(4, 0) == 0);
  REQUIRE(cuStreamEndCapture(device.streams[0], &graph) == 0);
  size_t count = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &count) == 0);
  CHECK(count == 4);
  void* all[4] = {};
  CHECK(cuGraphGetNodes(graph, all, &count) == 0);
  const auto dependencies = [&](void* node) {
    size_t there = 3;
    CHECK(cuGraphNodeGetDependencies(node, before, &there) == 0);
    return std::vector<void*>(before, before + there);
  };
  CHECK(dependencies(all[0]).empty());
  CHECK(dependencies(all[1]) == std::vector<void*>{all[0]});
  CHECK(dependencies(all[2]) == std::vector<void*>{all[0]});
  CHECK(dependencies(all[3]) == std::vector<void*>{all[2], all[1]});
  KernelNodeParams params = {};
  CHECK(cuGraphKernelNodeGetParams_v2(all[0], &params) == kInvalidValue);
  CHECK(last_fault() == "cuGraphKernelNodeGetParams_v2 of a node that is no kernel's");
  CHECK(cuGraphDestroy(graph) == 0);
  int type = 0;
  CHECK(cuGraphNodeGetType(all[0], &type) == kInvalidHandle);
}

TEST_CASE("memory of a graph is the same whenever it is launched", "[random]") {
  const Device device;
  void *graph = nullptr, *exec = nullptr;
  uint64_t memory = 0;
  CHECK(cuStreamBeginCapture_v2(device.streams[0], 0) == 0);
  CHECK(cuMemAllocAsync(&memory, 4, device.streams[0]) == 0);
  CHECK(cuMemsetD32Async(memory, 11, 1, device.streams[0]) == 0);
  CHECK(cuMemcpyDtoDAsync_v2(device.word, memory, 4, device.streams[0]) == 0);
  CHECK(cuMemFreeAsync(memory, device.streams[0]) == 0);
  REQUIRE(cuStreamEndCapture(device.streams[0], &graph) == 0);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
  for (int repeat = 0; repeat < 2; ++repeat) {
    CHECK(device.set(0) == 0);
    CHECK(cuGraphLaunch(exec, device.streams[0]) == 0);
    CHECK(cuStreamSynchronize(device.streams[0]) == 0);
    CHECK(device.now() == 11);
  }
  CHECK(cuGraphExecDestroy(exec) == 0);
  CHECK(cuGraphDestroy(graph) == 0);
}
