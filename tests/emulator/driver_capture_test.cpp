// Captures: which calls are legal in them, by whom, and what breaks them.
#include <thread>

#include "driver_support.h"

namespace {

constexpr int kGlobal = 0, kThreadLocal = 1, kRelaxed = 2;

// Ends a capture that must be whole, and its graph.
void end_whole(void* stream) {
  void* graph = nullptr;
  CHECK(cuStreamEndCapture(stream, &graph) == 0);
  CHECK(cuGraphDestroy(graph) == 0);
}

void end_broken(void* stream) {
  void* graph = &graph;
  CHECK(cuStreamEndCapture(stream, &graph) == kInvalidated);
  CHECK(graph == nullptr);
}

// The result of an allocation, which a capture may forbid.
int allocate() {
  uint64_t memory = 0;
  const int result = cuMemAlloc_v2(&memory, 4);
  if (result == 0) CHECK(cuMemFree_v2(memory) == 0);
  return result;
}

int allocate_in_another_thread(void* context) {
  int result = 0;
  std::thread([&] {
    CHECK(cuCtxSetCurrent(context) == 0);
    result = allocate();
  }).join();
  return result;
}

}  // namespace

TEST_CASE("an unsafe call breaks the captures that forbid it") {
  const Device device;
  void* stream = device.streams[0];
  struct Case {
    int mode, own, others;
  };
  for (const auto& [mode, own, others] :
       {Case{kGlobal, kUnsupported, kUnsupported}, {kThreadLocal, kUnsupported, 0}, {kRelaxed, 0, 0}}) {
    INFO("mode " << mode);
    CHECK(cuStreamBeginCapture_v2(stream, mode) == 0);
    CHECK(allocate_in_another_thread(device.context) == others);
    others == 0 ? end_whole(stream) : end_broken(stream);
    CHECK(cuStreamBeginCapture_v2(stream, mode) == 0);
    CHECK(allocate() == own);
    own == 0 ? end_whole(stream) : end_broken(stream);
  }
}

TEST_CASE("a thread may exchange its mode to make unsafe calls") {
  const Device device;
  CHECK(cuStreamBeginCapture_v2(device.streams[0], kGlobal) == 0);
  int mode = kRelaxed;
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == 0);
  CHECK(mode == kGlobal);
  CHECK(allocate() == 0);
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == 0);
  CHECK(mode == kRelaxed);
  end_whole(device.streams[0]);
  mode = 3;
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == kInvalidValue);
  CHECK(last_fault() == "capture mode: expected 0 to 2, got 3");
}

TEST_CASE("waiting for a stream that is captured breaks the capture, and work is then refused") {
  const Device device;
  void* stream = device.streams[0];
  int status = 9;
  const auto status_of = [&] { return cuStreamIsCapturing(stream, &status) == 0 ? status : -1; };
  CHECK(status_of() == 0);
  CHECK(cuStreamBeginCapture_v2(stream, kRelaxed) == 0);
  CHECK(status_of() == 1);
  CHECK(cuStreamSynchronize(stream) == kUnsupported);
  CHECK(status_of() == 2);
  CHECK(device.set(1) == kInvalidated);
  end_broken(stream);
  CHECK(status_of() == 0);

  CHECK(cuStreamBeginCapture_v2(stream, kRelaxed) == 0);
  CHECK(cuStreamQuery(stream) == kUnsupported);
  end_broken(stream);
  CHECK(cuStreamBeginCapture_v2(stream, kRelaxed) == 0);
  CHECK(cuEventRecord(device.event, stream) == 0);
  CHECK(cuEventQuery(device.event) == kCapturedEvent);
  end_broken(stream);
  CHECK(device.now() == 0);
}

TEST_CASE("a capture begins once and ends where and by whom it was begun") {
  const Device device;
  void *graph = nullptr, *stream = device.streams[0];
  CHECK(cuStreamEndCapture(stream, &graph) == kIllegalState);
  CHECK(cuStreamBeginCapture_v2(nullptr, kGlobal) == kUnsupported);
  CHECK(cuStreamBeginCapture_v2(stream, 3) == kInvalidValue);
  CHECK(cuStreamBeginCapture_v2(stream, kGlobal) == 0);
  CHECK(cuStreamBeginCapture_v2(stream, kGlobal) == kIllegalState);
  int ended = 0;
  std::thread([&] {
    CHECK(cuCtxSetCurrent(device.context) == 0);
    ended = cuStreamEndCapture(stream, &graph);
  }).join();
  CHECK(ended == kWrongThread);
  CHECK(cuEventRecord(device.event, stream) == 0);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == 0);
  CHECK(cuStreamEndCapture(device.streams[1], &graph) == kUnmatched);
  end_whole(stream);  // the other stream had no work of its own
  CHECK(cuStreamWaitEvent(stream, device.event, 0) == kCapturedEvent);
  int status = 9;
  CHECK(cuStreamIsCapturing(device.streams[1], &status) == 0);
  CHECK(status == 0);
}

TEST_CASE("two captures don't merge") {
  const Device device;
  for (void* stream : device.streams) CHECK(cuStreamBeginCapture_v2(stream, kRelaxed) == 0);
  CHECK(cuEventRecord(device.event, device.streams[0]) == 0);
  CHECK(cuStreamWaitEvent(device.streams[1], device.event, 0) == kMerge);
  for (void* stream : device.streams) end_broken(stream);
}

TEST_CASE("the legacy stream is of no use while a blocking stream is captured") {
  const Device device;
  void* blocking = nullptr;
  REQUIRE(cuStreamCreate(&blocking, 0) == 0);
  CHECK(cuStreamBeginCapture_v2(blocking, kGlobal) == 0);
  CHECK(cuMemsetD32Async(device.word, 1, 1, nullptr) == kImplicit);
  int status = 9;
  CHECK(cuStreamIsCapturing(nullptr, &status) == kImplicit);
  end_whole(blocking);
  CHECK(cuStreamBeginCapture_v2(device.streams[0], kGlobal) == 0);
  CHECK(cuMemsetD32Async(device.word, 1, 1, nullptr) == 0);  // no other stream comes before or after this one
  end_whole(device.streams[0]);
  CHECK(cuStreamDestroy_v2(blocking) == 0);
}

TEST_CASE("a capture tells its number, its graph and what comes next after") {
  const Device device;
  int status = 9;
  uint64_t id = 0;
  void *graph = nullptr, *ended = nullptr;
  void* const* after = nullptr;
  size_t count = 9;
  CHECK(cuStreamBeginCapture_v2(device.streams[0], kGlobal) == 0);
  CHECK(device.set(1) == 0);
  CHECK(cuStreamGetCaptureInfo_v2(device.streams[0], &status, &id, &graph, &after, &count) == 0);
  CHECK(status == 1);
  CHECK(id > 0);
  REQUIRE(count == 1);
  void* node = nullptr;
  size_t nodes = 1;
  CHECK(cuGraphGetNodes(graph, &node, &nodes) == 0);
  CHECK(after[0] == node);
  CHECK(cuStreamEndCapture(device.streams[0], &ended) == 0);
  CHECK(ended == graph);
  CHECK(cuGraphDestroy(graph) == 0);
}
