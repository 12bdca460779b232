// What all exported functions have in common.
#pragma once

#include <unistd.h>

#include <mutex>
#include <string>
#include <string_view>

#include "driver/capture.h"
#include "driver/state.h"

namespace stratum::emulator::driver {

// Runs the body of an exported function: counts the call, fails it if a test asked for that, refuses it where no
// function may be called.
template <typename F>
Result call(const char* name, F body) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  ++s.calls[name];
  ++s.call_number;
  if (s.failure.nth > 0 && s.failure.function == name && --s.failure.nth == 0) {
    return static_cast<Result>(s.failure.code);
  }
  if (s.process != getpid()) return s.refuse(kNotInitialized, std::string(name) + " in a forked process");
  if (!s.initialized && std::string_view(name) != "cuInit") return kNotInitialized;
  run_some(s);
  return body(s);
}

// A function that needs a current context, whose device hasn't had a fault.
template <typename F>
Result context_call(const char* name, F body) {
  return call(name, [&](State& s) -> Result {
    if (thread_state().contexts.empty()) {
      return s.refuse(kInvalidContext, std::string(name) + " without a current context");
    }
    Device& device = *s.devices[static_cast<size_t>(thread_state().contexts.back()->device)];
    if (device.sticky != kSuccess) return device.sticky;
    return body(s, device);
  });
}

// A function that captures in progress may forbid, and that they are broken by.
template <typename F>
Result unsafe_call(const char* name, F body) {
  return context_call(name, [&](State& s, Device& device) -> Result {
    if (break_captures(s))
      return s.refuse(kCaptureUnsupported, std::string(name) + " while a stream is being captured");
    return body(s, device);
  });
}

// A function that queues work on a stream.
template <typename F>
Result stream_call(const char* name, const void* handle, F body) {
  return context_call(name, [&](State& s, Device& device) -> Result {
    Stream* stream = s.find_stream(device, handle, name);
    if (stream == nullptr) return kInvalidHandle;
    if (implicitly_captured(s, *stream)) {
      return s.refuse(kCaptureImplicit, std::string(name) + " on the legacy stream while another is being captured");
    }
    return body(s, *stream);
  });
}

}  // namespace stratum::emulator::driver
