#include "context.h"

#include <map>
#include <mutex>

namespace stratum::cuda {

Context primary_context(Device device) {
  static std::mutex& mutex = *new std::mutex;
  static std::map<Device, Context>& contexts = *new std::map<Device, Context>;
  const std::lock_guard lock(mutex);
  if (const auto known = contexts.find(device); known != contexts.end()) return known->second;
  const auto position = contexts.emplace(device, nullptr).first;
  if (const Result result = driver().primary_context_retain.attempt(&position->second, device); result != kSuccess) {
    contexts.erase(position);
    throw_driver_error(driver().primary_context_retain.symbol(), result);
  }
  return position->second;
}

ContextScope::ContextScope(Context context) {
  Context current = nullptr;
  driver().context_get_current(&current);
  if (current == context) return;
  driver().context_push(context);
  pushed_ = true;
}

ContextScope::~ContextScope() {
  Context popped = nullptr;
  if (pushed_) driver().context_pop.attempt(&popped);
}

RelaxedCapture::RelaxedCapture() : exchanged_(driver().thread_exchange_capture_mode.attempt(&mode_) == kSuccess) {}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) driver().thread_exchange_capture_mode.attempt(&mode_);
}

bool is_capturing(Stream stream) {
  int status = kCaptureStatusNone;
  const Result result = driver().stream_is_capturing.attempt(stream, &status);
  if (result == kErrorCaptureImplicit) return true;
  if (result != kSuccess) throw_driver_error(driver().stream_is_capturing.symbol(), result);
  return status != kCaptureStatusNone;
}

}  // namespace stratum::cuda
