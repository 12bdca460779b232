// Events: points of streams to wait for, from the host or from other streams.
#include <chrono>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

constexpr unsigned kBlockingSync = 1, kDisableTiming = 2, kInterprocess = 4;

// A function of an event that must exist and must not stand for nodes of a graph.
template <typename F>
Result event_call(const char* name, Event* handle, F body) {
  return context_call(name, [&](State& s, Device& device) -> Result {
    Event* event = s.events.find(handle);
    if (event == nullptr) return s.refuse(kInvalidHandle, std::string(name) + " of an unknown event");
    if (event->capture) {
      event->capture->broken = true;
      return s.refuse(kCapturedEvent, std::string(name) + " of an event that was recorded in a capture");
    }
    return body(s, device, *event);
  });
}

}  // namespace

extern "C" {

Result cuEventCreate(Event** event, unsigned flags) {
  return context_call("cuEventCreate", [&](State& s, Device& device) {
    if ((flags & ~(kBlockingSync | kDisableTiming | kInterprocess)) != 0 ||
        ((flags & kInterprocess) != 0 && (flags & kDisableTiming) == 0)) {
      return s.refuse(kInvalidValue, "cuEventCreate: unknown flags, or an interprocess event with timing");
    }
    *event = s.events.make(Event{.device = &device, .timed = (flags & kDisableTiming) == 0});
    return kSuccess;
  });
}

Result cuEventDestroy_v2(Event* handle) {
  return context_call("cuEventDestroy_v2", [&](State& s, Device&) {
    Event* event = s.events.find(handle);
    if (event == nullptr) return s.refuse(kInvalidHandle, "cuEventDestroy_v2 of an unknown event");
    s.events.destroy(event);
    return kSuccess;
  });
}

Result cuEventRecord(Event* handle, void* stream_handle) {
  return stream_call("cuEventRecord", stream_handle, [&](State& s, Stream& stream) -> Result {
    Event* event = s.events.find(handle);
    if (event == nullptr) return s.refuse(kInvalidHandle, "cuEventRecord of an unknown event");
    if (event->device != stream.device) return s.refuse(kInvalidHandle, "cuEventRecord of another device's event");
    if (stream.capture) {
      event->capture = stream.capture;
      event->captured = stream.tail;
      return kSuccess;
    }
    event->capture.reset();
    event->at = {&stream, s.operations + 1};
    return enqueue(s, stream, [event, order = event->at.order] {
      if (event->at.order == order) event->when = std::chrono::steady_clock::now();
      return kSuccess;
    });
  });
}

Result cuEventSynchronize(Event* handle) {
  return unsafe_call("cuEventSynchronize", [&](State& s, Device& device) -> Result {
    Event* event = s.events.find(handle);
    if (event == nullptr) return s.refuse(kInvalidHandle, "cuEventSynchronize of an unknown event");
    if (event->capture) {
      event->capture->broken = true;
      return s.refuse(kCapturedEvent, "cuEventSynchronize of an event that was recorded in a capture");
    }
    host_wait(s, event->at);
    return device.sticky;
  });
}

Result cuEventQuery(Event* handle) {
  return event_call("cuEventQuery", handle, [&](State& s, Device& device, Event& event) -> Result {
    if (!is_done(event.at)) return kNotReady;
    host_wait(s, event.at);
    return device.sticky;
  });
}

Result cuEventElapsedTime(float* milliseconds, Event* begin, Event* end) {
  return event_call("cuEventElapsedTime", begin, [&](State& s, Device&, Event& first) -> Result {
    const Event* second = s.events.find(end);
    if (second == nullptr || second->capture || !first.timed || !second->timed || first.at.stream == nullptr ||
        second->at.stream == nullptr) {
      return s.refuse(kInvalidHandle, "cuEventElapsedTime of an event without timing, never recorded or unknown");
    }
    if (!is_done(first.at) || !is_done(second->at)) return kNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(second->when - first.when).count();
    return kSuccess;
  });
}

Result cuEventElapsedTime_v2(float* milliseconds, Event* begin, Event* end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}

Result cuStreamWaitEvent(void* handle, Event* event_handle, unsigned flags) {
  return stream_call("cuStreamWaitEvent", handle, [&](State& s, Stream& stream) -> Result {
    Event* event = s.events.find(event_handle);
    if (event == nullptr) return s.refuse(kInvalidHandle, "cuStreamWaitEvent for an unknown event");
    if (flags != 0)
      return s.refuse(kInvalidValue, "cuStreamWaitEvent: flags: expected 0, external events aren't emulated");
    if (event->capture) return join_capture(s, stream, *event);
    if (event->at.stream == nullptr) return kSuccess;  // never recorded: nothing to wait for
    if (stream.capture) {
      stream.capture->broken = true;
      return s.refuse(kCaptureIsolation, "cuStreamWaitEvent in a capture for an event that was recorded before it");
    }
    return enqueue(s, stream, [] { return kSuccess; }, {event->at});
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
