#include "engine.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "error.h"

namespace stratum {
namespace {

using cuda::driver;

cuda::Device find_device(int32_t ordinal) {
  int count = 0;
  driver().device_get_count(&count);
  if (ordinal >= count) {
    fail(STRATUM_CONFIG_ERROR, "device", "expected 0 to {}, this machine's CUDA devices, got {}", count - 1, ordinal);
  }
  cuda::Device device = 0;
  driver().device_get(&device, ordinal);
  return device;
}

std::string name_of(cuda::Device device) {
  char name[256] = {};
  driver().device_get_name(name, sizeof(name), device);
  return name;
}

ComputeCapability capability_of(cuda::Device device) {
  ComputeCapability capability;
  driver().device_get_attribute(&capability.major, cuda::kComputeCapabilityMajor, device);
  driver().device_get_attribute(&capability.minor, cuda::kComputeCapabilityMinor, device);
  return capability;
}

// STRATUM_POISON=1 fills an engine's device memory with NaNs when it is built: results must not depend on what the
// memory held before.
bool wants_poison() {
  const char* value = std::getenv("STRATUM_POISON");
  return value != nullptr && std::string_view(value) == "1";
}

void check_bytes(int64_t bytes, int64_t max) {
  if (bytes < 0 || bytes > max) {
    fail(STRATUM_SHAPE_ERROR, "bytes", "expected 0 to {}, got {}", max, bytes);
  }
}

}  // namespace

Engine::Engine(std::string_view config_json, const std::filesystem::path& pack)
    : config_(parse_config(config_json)), account_(config_.memory_limit_bytes) {
  const Manifest manifest = read_pack_manifest(pack);
  cuda::initialize();
  device_ = find_device(config_.device);
  device_name_ = name_of(device_);
  capability_ = capability_of(device_);
  read_kernels(manifest, pack);

  context_ = cuda::primary_context(device_);
  const cuda::ContextScope scope(context_);
  const cuda::RelaxedCapture relaxed;
  kernels_->load(device_);
  if (config_.training) training_.emplace(config_, *kernels_, driver().host_memory);
  if (config_.serving()) serving_.emplace(config_, *kernels_, account_, driver().host_memory, wants_poison());
}

// A pack may be replaced while it is read: files of the old manifest then go. The new manifest is read until it stays.
void Engine::read_kernels(Manifest manifest, const std::filesystem::path& pack) {
  while (true) {
    try {
      kernels_.emplace(config_, manifest, pack, capability_);
      return;
    } catch (const Error& error) {
      if (error.status() != STRATUM_PACK_ERROR) throw;
      Manifest present = read_pack_manifest(pack);
      if (present == manifest) throw;
      manifest = std::move(present);
    }
  }
}

void Engine::close() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  cuda::Context current = nullptr;
  // After the driver's own end, at exit, nothing is left to free.
  if (driver().context_get_current.attempt(&current) == cuda::kErrorDeinitialized) {
    serving_.reset();
  } else {
    const cuda::ContextScope scope(context_);
    const cuda::RelaxedCapture relaxed;
    if (serving_) serving_->wait();
    serving_.reset();
  }
  closed_ = true;
}

void Engine::release_training(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  check_bytes(bytes, training_bytes_);
  account_.remove(bytes);
  training_bytes_ -= bytes;
}

Session::Session(std::shared_ptr<Engine> engine) : engine_(std::move(engine)), lock_(engine_->mutex_) {
  if (engine_->closed_) fail(STRATUM_DEVICE_ERROR, "", "the engine is closed");
}

const Training& Session::training() const {
  if (!engine_->training_) fail(STRATUM_CONFIG_ERROR, "modes", "the engine was built without \"training\"");
  return *engine_->training_;
}

Serving& Session::serving() const {
  if (!engine_->serving_)
    fail(STRATUM_CONFIG_ERROR, "modes", "the engine was built without \"prefill\" and \"decode\"");
  return *engine_->serving_;
}

Session& Session::on_device() {
  scope_.emplace(engine_->context_);
  return *this;
}

void Session::reserve_training(int64_t bytes) {
  check_bytes(bytes, INT64_MAX);
  engine_->account_.add(bytes);
  engine_->training_bytes_ += bytes;
}

cuda::DevicePointer Session::allocate(int64_t bytes, cuda::Stream stream) const {
  check_bytes(bytes, INT64_MAX);
  cuda::DevicePointer data = 0;
  if (bytes > 0) driver().memory_allocate_async(&data, static_cast<size_t>(bytes), stream);
  return data;
}

stratum_memory Session::memory() const {
  stratum_memory memory{};
  memory.bytes_held = engine_->account_.held();
  memory.bytes_peak = engine_->account_.peak();
  memory.bytes_limit = engine_->account_.limit().value_or(-1);
  memory.bytes_training = engine_->training_bytes_;
  memory.page_tokens = abi::kPageTokens;
  if (engine_->serving_) {
    const ServingSizes& sizes = engine_->serving_->sizes();
    const SequenceTable& sequences = engine_->serving_->sequences();
    memory.bytes_cache = sizes.cache_bytes;
    memory.bytes_partials = sizes.partial_bytes;
    memory.bytes_metadata = sizes.metadata_bytes;
    memory.pages_total = sequences.pool().total();
    memory.pages_free = sequences.pool().free();
    memory.pages_used = sequences.pool().used();
    memory.pages_shared = sequences.pool().shared();
    memory.sequences = sequences.alive();
  }
  return memory;
}

std::string Session::describe() const {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const LoadedKernel* kernel : engine_->kernels_->all()) {
    kernels.push_back({{"operation", kernel->row.key.operation},
                       {"name", kernel->row.name},
                       {"arch", kernel->row.key.arch},
                       {"sha256", kernel->row.cubin.sha256},
                       {"when", when_to_json(kernel->row.when)}});
  }
  const ComputeCapability capability = engine_->capability_;
  return nlohmann::ordered_json{
      {"config", config_to_json(engine_->config_)},
      {"device",
       {{"name", engine_->device_name_},
        {"compute_capability", fmt::format("{}.{}", capability.major, capability.minor)}}},
      {"kernels", std::move(kernels)},
  }
      .dump();
}

}  // namespace stratum
