// Modules in the driver, one for each (device, cubin) of the process.
//
// A module is loaded once, when the first engine asks for it, and never unloaded: a CUDA graph that a caller captured
// from an engine holds its kernels by address and may be replayed after the engine is closed. Engines of one process
// share them, so what stays is bounded by the pack.
#pragma once

#include <cstdint>
#include <string>

#include "driver.h"

namespace stratum {

// The kernel `name` of the cubin `image`, whose hash is `sha256`, with its dynamic shared memory permitted. The
// device's primary context must be current. Throws Error (DRIVER_ERROR).
cuda::Function load_function(cuda::Device device, const std::string& sha256, const std::string& image,
                             const std::string& name, int32_t shared_bytes);

}  // namespace stratum
