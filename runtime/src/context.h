// Primary contexts, and the state of the calling thread that a call borrows and gives back.
#pragma once

#include "driver.h"

namespace stratum::cuda {

// The primary context of a device. Retained on the first call for that device and kept for the life of the process,
// since the modules loaded into it are kept too (modules.h).
Context primary_context(Device device);

// Makes a context current for a scope; afterwards the caller's is current again.
class ContextScope {
 public:
  explicit ContextScope(Context context);
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

 private:
  bool pushed_ = false;
};

// Lets this thread allocate, free and wait for a scope although another thread captures a graph: none of that touches
// the other's stream, and without this it would break the capture.
class RelaxedCapture {
 public:
  RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  int mode_ = kCaptureModeRelaxed;  // the thread's own while this object lives
  bool exchanged_;
};

// Whether the stream is being captured. So is, in effect, the legacy default stream while any other is.
bool is_capturing(Stream stream);

}  // namespace stratum::cuda
