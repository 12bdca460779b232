// The engines of the process by their names in the C interface.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "engine.h"
#include "stratum.h"

namespace stratum::registry {

// Builds an engine and names it. Throws Error: DEVICE_ERROR in a forked process, before anything is read, else as
// Engine does.
stratum_engine build(std::string_view config_json, const std::filesystem::path& pack);

// An open engine. Throws Error (DEVICE_ERROR) for a closed one, a name never given, or in a forked process.
std::shared_ptr<Engine> find(stratum_engine name);

// The open engine, or null if it was closed. Throws Error (DEVICE_ERROR) for a name never given.
std::shared_ptr<Engine> find_open(stratum_engine name);

// The device of an engine, open or closed. Throws Error (DEVICE_ERROR) for a name never given.
cuda::Device device_of(stratum_engine name);

// Closes an engine; a closed one stays closed. Throws Error: DEVICE_ERROR for a name never given, DRIVER_ERROR, after
// which the engine is as before.
void close(stratum_engine name);

}  // namespace stratum::registry
