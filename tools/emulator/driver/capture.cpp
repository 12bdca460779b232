#include "driver/capture.h"

#include <algorithm>
#include <set>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

bool takes_part(const Stream& stream, const Capture& capture) { return stream.capture.get() == &capture; }

// The nodes, and all that they come after.
std::set<const Node*> with_ancestors(const std::vector<Node*>& nodes) {
  std::set<const Node*> found;
  std::vector<const Node*> open(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (found.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return found;
}

bool all_joined(const State& s, const Capture& capture) {
  const std::set<const Node*> joined = with_ancestors(capture.origin->tail);
  for (const Stream* stream : s.streams_of(*capture.origin->device)) {
    if (!takes_part(*stream, capture)) continue;
    if (!std::ranges::all_of(stream->tail, [&](const Node* node) { return joined.contains(node); })) return false;
  }
  return true;
}

}  // namespace

bool break_captures(State& s) {
  const int mode = thread_state().capture_mode;
  if (mode == kRelaxed) return false;
  bool any = false;
  for (const auto& capture : s.captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    if (capture->mode == kRelaxed || (!own && (mode == kThreadLocal || capture->mode == kThreadLocal))) continue;
    capture->broken = any = true;
  }
  return any;
}

bool implicitly_captured(const State& s, const Stream& stream) {
  if (&stream != &stream.device->legacy) return false;
  return std::ranges::any_of(s.streams_of(*stream.device),
                             [](const Stream* one) { return one->capture && one->blocking; });
}

Result begin_capture(State& s, Stream& stream, int mode) {
  if (mode < kGlobal || mode > kRelaxed) {
    return s.refuse(kInvalidValue, "capture mode: expected 0 to 2, got " + std::to_string(mode));
  }
  if (&stream == &stream.device->legacy) return s.refuse(kCaptureUnsupported, "a capture of the legacy stream");
  if (stream.capture) return s.refuse(kIllegalState, "a capture of a stream that is being captured");
  Graph* graph = s.graphs.make(Graph{});
  stream.capture =
      std::make_shared<Capture>(Capture{s.next_capture_id++, mode, std::this_thread::get_id(), &stream, graph});
  s.captures.push_back(stream.capture);
  return kSuccess;
}

Result end_capture(State& s, Stream& stream, Graph** graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (!capture) return s.refuse(kIllegalState, "the end of a capture that was never begun");
  if (capture->origin != &stream) return s.refuse(kCaptureUnmatched, "the end of a capture in another stream");
  if (capture->mode != kRelaxed && capture->thread != std::this_thread::get_id()) {
    return s.refuse(kCaptureWrongThread, "the end of a capture in another thread than its begin");
  }
  const bool joined = all_joined(s, *capture);
  for (Stream* one : s.streams_of(*stream.device)) {
    if (!takes_part(*one, *capture)) continue;
    one->capture.reset();
    one->tail.clear();
  }
  std::erase(s.captures, capture);
  if (!capture->broken && joined) return *graph = capture->graph, kSuccess;
  s.graphs.destroy(capture->graph);
  if (capture->broken) return kCaptureInvalidated;
  return s.refuse(kCaptureUnjoined, "the end of a capture before a stream that takes part in it was joined");
}

Result join_capture(State& s, Stream& stream, const Event& event) {
  if (std::ranges::find(s.captures, event.capture) == s.captures.end()) {
    return s.refuse(kCapturedEvent, "cuStreamWaitEvent for an event of a capture that has ended");
  }
  if (event.capture->broken) return kCaptureInvalidated;
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->broken = event.capture->broken = true;
    return s.refuse(kCaptureMerge, "cuStreamWaitEvent for an event of another capture");
  }
  if (&stream == &stream.device->legacy)
    return s.refuse(kCaptureImplicit, "a capture that the legacy stream would join");
  stream.capture = event.capture;
  for (Node* node : event.captured) {
    if (std::ranges::find(stream.tail, node) == stream.tail.end()) stream.tail.push_back(node);
  }
  return kSuccess;
}

extern "C" {

Result cuStreamBeginCapture_v2(void* handle, int mode) {
  return context_call("cuStreamBeginCapture_v2", [&](State& s, Device& device) -> Result {
    Stream* stream = s.find_stream(device, handle, "cuStreamBeginCapture_v2");
    return stream == nullptr ? kInvalidHandle : begin_capture(s, *stream, mode);
  });
}

Result cuStreamEndCapture(void* handle, Graph** graph) {
  return context_call("cuStreamEndCapture", [&](State& s, Device& device) -> Result {
    Stream* stream = s.find_stream(device, handle, "cuStreamEndCapture");
    return stream == nullptr ? kInvalidHandle : end_capture(s, *stream, graph);
  });
}

// A question, and so without faults: of a stream that may not exist, of the legacy stream while it can't be used.
Result cuStreamIsCapturing(void* handle, int* status) {
  return context_call("cuStreamIsCapturing", [&](State& s, Device& device) -> Result {
    const Stream* stream = s.find_stream(device, handle, nullptr);
    if (stream == nullptr) return kInvalidHandle;
    if (implicitly_captured(s, *stream)) return kCaptureImplicit;
    *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
    return kSuccess;
  });
}

Result cuStreamGetCaptureInfo_v2(void* handle, int* status, uint64_t* id, Graph** graph, Node* const** after,
                                 size_t* count) {
  return context_call("cuStreamGetCaptureInfo_v2", [&](State& s, Device& device) -> Result {
    const Stream* stream = s.find_stream(device, handle, "cuStreamGetCaptureInfo_v2");
    if (stream == nullptr) return kInvalidHandle;
    if (implicitly_captured(s, *stream)) return kCaptureImplicit;
    *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
    if (*status != 1) return kSuccess;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->graph;
    if (after != nullptr) *after = stream->tail.data();
    if (count != nullptr) *count = stream->tail.size();
    return kSuccess;
  });
}

// Edges have no data of their own here.
Result cuStreamGetCaptureInfo_v3(void* handle, int* status, uint64_t* id, Graph** graph, Node* const** after,
                                 const void** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(handle, status, id, graph, after, count);
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return call("cuThreadExchangeStreamCaptureMode", [&](State& s) -> Result {
    if (*mode < kGlobal || *mode > kRelaxed) {
      return s.refuse(kInvalidValue, "capture mode: expected 0 to 2, got " + std::to_string(*mode));
    }
    std::swap(*mode, thread_state().capture_mode);
    return kSuccess;
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
