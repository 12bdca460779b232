// Contexts: the devices' primary ones, current on a thread's stack.
#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

Device* device_of(State& s, const Context* context) {
  for (const auto& device : s.devices) {
    if (&device->context == context && device->retained > 0) return device.get();
  }
  return nullptr;
}

Result unknown(State& s, const char* name) {
  return s.refuse(kInvalidContext, std::string(name) + " of a context that nobody retained");
}

}  // namespace

extern "C" {

Result cuDevicePrimaryCtxRetain(Context** context, int ordinal) {
  return call("cuDevicePrimaryCtxRetain", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    Device& device = *s.devices[static_cast<size_t>(ordinal)];
    ++device.retained;
    *context = &device.context;
    return kSuccess;
  });
}

// What the context owns stays: other parts of the process may hold the context, as they do in practice.
Result cuDevicePrimaryCtxRelease_v2(int ordinal) {
  return call("cuDevicePrimaryCtxRelease_v2", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    Device& device = *s.devices[static_cast<size_t>(ordinal)];
    if (device.retained == 0) return unknown(s, "cuDevicePrimaryCtxRelease_v2");
    --device.retained;
    return kSuccess;
  });
}

Result cuDevicePrimaryCtxGetState(int ordinal, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    *flags = 0;
    *active = s.devices[static_cast<size_t>(ordinal)]->retained > 0 ? 1 : 0;
    return kSuccess;
  });
}

Result cuCtxGetCurrent(Context** context) {
  return call("cuCtxGetCurrent", [&](State&) {
    const auto& contexts = thread_state().contexts;
    *context = contexts.empty() ? nullptr : contexts.back();
    return kSuccess;
  });
}

Result cuCtxGetDevice(int* device) {
  return call("cuCtxGetDevice", [&](State&) {
    if (thread_state().contexts.empty()) return kInvalidContext;
    *device = thread_state().contexts.back()->device;
    return kSuccess;
  });
}

Result cuCtxPushCurrent_v2(Context* context) {
  return call("cuCtxPushCurrent_v2", [&](State& s) {
    if (device_of(s, context) == nullptr) return unknown(s, "cuCtxPushCurrent_v2");
    thread_state().contexts.push_back(context);
    return kSuccess;
  });
}

Result cuCtxPopCurrent_v2(Context** context) {
  return call("cuCtxPopCurrent_v2", [&](State& s) {
    auto& contexts = thread_state().contexts;
    if (contexts.empty()) return s.refuse(kInvalidContext, "cuCtxPopCurrent_v2 without a current context");
    if (context != nullptr) *context = contexts.back();
    contexts.pop_back();
    return kSuccess;
  });
}

Result cuCtxSetCurrent(Context* context) {
  return call("cuCtxSetCurrent", [&](State& s) {
    if (context != nullptr && device_of(s, context) == nullptr) return unknown(s, "cuCtxSetCurrent");
    auto& contexts = thread_state().contexts;
    if (!contexts.empty()) contexts.pop_back();
    if (context != nullptr) contexts.push_back(context);
    return kSuccess;
  });
}

Result cuCtxSynchronize() {
  return unsafe_call("cuCtxSynchronize", [&](State& s, Device& device) {
    host_wait_all(s, device);
    return device.sticky;
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
