// An engine: the kernels of a configuration on one device, and the state of its calls.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "config.h"
#include "context.h"
#include "kernels.h"
#include "memory.h"
#include "serving.h"
#include "training.h"

namespace stratum {

class Engine {
 public:
  // Throws Error (CONFIG_ERROR, NO_KERNEL, PACK_ERROR, DRIVER_ERROR). Files of the pack are checked before the driver
  // is asked for anything but the device's name and capability.
  Engine(std::string_view config_json, const std::filesystem::path& pack);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Waits for the queued work and frees everything. Does nothing the second time. Throws Error (DRIVER_ERROR) if it
  // cannot wait; then nothing is freed, since the device may still use it, and the engine is as before.
  void close();

  cuda::Device device() const { return device_; }

  // Takes `bytes` of training workspace off the count; of a closed engine nothing is counted any more.
  void release_training(int64_t bytes);

 private:
  friend class Session;

  void read_kernels(Manifest manifest, const std::filesystem::path& pack);

  Config config_;
  cuda::Device device_ = 0;
  std::string device_name_;
  ComputeCapability capability_;
  std::optional<Kernels> kernels_;
  cuda::Context context_ = nullptr;
  MemoryAccount account_;
  int64_t training_bytes_ = 0;
  std::optional<Training> training_;
  std::optional<Serving> serving_;
  bool closed_ = false;
  std::mutex mutex_;  // held during every call
};

// One call into an open engine: holds its lock. Throws Error (DEVICE_ERROR) if the engine is closed.
class Session {
 public:
  explicit Session(std::shared_ptr<Engine> engine);

  // Throw Error (CONFIG_ERROR naming modes) if the engine was not built for it.
  const Training& training() const;
  Serving& serving() const;

  // Makes the device's context current until the session ends.
  Session& on_device();

  // Counts `bytes` of training workspace. Throws Error (MEMORY_LIMIT).
  void reserve_training(int64_t bytes);
  // Device memory for a caller, in the order of `stream`. The context must be current.
  cuda::DevicePointer allocate(int64_t bytes, cuda::Stream stream) const;
  stratum_memory memory() const;
  // Facts about the engine, as JSON.
  std::string describe() const;

 private:
  std::shared_ptr<Engine> engine_;
  std::unique_lock<std::mutex> lock_;
  std::optional<cuda::ContextScope> scope_;
};

}  // namespace stratum
