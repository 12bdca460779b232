// Streams.
#include <algorithm>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

constexpr int kLowestPriority = 0, kHighestPriority = -5;

Result create(const char* name, Stream** handle, unsigned flags, int priority) {
  constexpr unsigned kNonBlocking = 1;
  return context_call(name, [&](State& s, Device& device) {
    if ((flags & ~kNonBlocking) != 0) return s.refuse(kInvalidValue, std::string(name) + ": unknown flags");
    *handle = s.streams.make(Stream{.device = &device,
                                    .id = s.next_stream_id++,
                                    .blocking = flags != kNonBlocking,
                                    .priority = std::clamp(priority, kHighestPriority, kLowestPriority)});
    return kSuccess;
  });
}

// A function that asks about a stream's work or waits for it: a capture has none, and is broken by the question.
template <typename F>
Result waiting_call(const char* name, void* handle, F body) {
  return stream_call(name, handle, [&](State& s, Stream& stream) -> Result {
    if (break_captures(s) || stream.capture) {
      if (stream.capture) stream.capture->broken = true;
      return s.refuse(kCaptureUnsupported, std::string(name) + " while a stream is being captured");
    }
    return body(s, stream);
  });
}

}  // namespace

extern "C" {

Result cuStreamCreate(Stream** stream, unsigned flags) { return create("cuStreamCreate", stream, flags, 0); }

Result cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  return create("cuStreamCreateWithPriority", stream, flags, priority);
}

// What is queued will still run.
Result cuStreamDestroy_v2(Stream* handle) {
  return context_call("cuStreamDestroy_v2", [&](State& s, Device&) {
    Stream* stream = s.streams.find(handle);
    if (stream == nullptr) return s.refuse(kInvalidHandle, "cuStreamDestroy_v2 of an unknown stream");
    if (stream->capture) {
      stream->capture->broken = true;
      s.fault("cuStreamDestroy_v2 of a stream that is being captured");
    }
    s.streams.destroy(stream);
    return kSuccess;
  });
}

Result cuStreamSynchronize(void* handle) {
  return waiting_call("cuStreamSynchronize", handle, [&](State& s, Stream& stream) {
    // The legacy stream stands for all blocking streams.
    if (&stream == &stream.device->legacy) enqueue(s, stream, [] { return kSuccess; });
    host_wait(s, {&stream, stream.last});
    return stream.device->sticky;
  });
}

Result cuStreamQuery(void* handle) {
  return waiting_call("cuStreamQuery", handle, [&](State& s, Stream& stream) -> Result {
    const Point all = {&stream, stream.last};
    if (!is_done(all)) return kNotReady;
    host_wait(s, all);
    return stream.device->sticky;
  });
}

Result cuStreamGetId(void* handle, unsigned long long* id) {
  return context_call("cuStreamGetId", [&](State& s, Device& device) {
    const Stream* stream = s.find_stream(device, handle, "cuStreamGetId");
    if (stream == nullptr) return kInvalidHandle;
    *id = stream->id;
    return kSuccess;
  });
}

Result cuStreamGetFlags(void* handle, unsigned* flags) {
  return context_call("cuStreamGetFlags", [&](State& s, Device& device) {
    const Stream* stream = s.find_stream(device, handle, "cuStreamGetFlags");
    if (stream == nullptr) return kInvalidHandle;
    *flags = stream->blocking ? 0 : 1;
    return kSuccess;
  });
}

Result cuStreamGetPriority(void* handle, int* priority) {
  return context_call("cuStreamGetPriority", [&](State& s, Device& device) {
    const Stream* stream = s.find_stream(device, handle, "cuStreamGetPriority");
    if (stream == nullptr) return kInvalidHandle;
    *priority = stream->priority;
    return kSuccess;
  });
}

Result cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  return context_call("cuCtxGetStreamPriorityRange", [&](State&, Device&) {
    *lowest = kLowestPriority;
    *highest = kHighestPriority;
    return kSuccess;
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
