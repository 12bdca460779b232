#include "registry.h"

#include <mutex>
#include <unordered_map>

#include "error.h"

namespace stratum::registry {
namespace {

struct Entry {
  std::shared_ptr<Engine> engine;  // null once closed
  cuda::Device device;             // memory of a closed engine's callers is still to be freed
};

struct Registry {
  std::mutex mutex;
  stratum_engine last = 0;
  std::unordered_map<stratum_engine, Entry> entries;
};

// Never destroyed: an engine that is still open at exit is left to the driver, which may be gone by then.
Registry& instance() {
  static Registry& registry = *new Registry;
  return registry;
}

Entry entry_of(stratum_engine name) {
  Registry& registry = instance();
  const std::lock_guard lock(registry.mutex);
  const auto entry = registry.entries.find(name);
  if (entry == registry.entries.end()) fail(STRATUM_DEVICE_ERROR, "engine", "no engine was ever named {}", name);
  return entry->second;
}

}  // namespace

stratum_engine build(std::string_view config_json, const std::filesystem::path& pack) {
  cuda::check_not_forked();
  auto engine = std::make_shared<Engine>(config_json, pack);
  Registry& registry = instance();
  const std::lock_guard lock(registry.mutex);
  const cuda::Device device = engine->device();
  registry.entries.emplace(registry.last + 1, Entry{std::move(engine), device});
  return ++registry.last;
}

std::shared_ptr<Engine> find(stratum_engine name) {
  // Before any lock: another thread may have held it when this process was forked.
  cuda::check_not_forked();
  auto engine = entry_of(name).engine;
  if (engine == nullptr) fail(STRATUM_DEVICE_ERROR, "engine", "the engine is closed");
  return engine;
}

std::shared_ptr<Engine> find_open(stratum_engine name) { return entry_of(name).engine; }

cuda::Device device_of(stratum_engine name) { return entry_of(name).device; }

void close(stratum_engine name) {
  const std::shared_ptr<Engine> engine = find_open(name);
  if (engine == nullptr) return;
  engine->close();
  Registry& registry = instance();
  const std::lock_guard lock(registry.mutex);
  registry.entries.at(name).engine.reset();
}

}  // namespace stratum::registry
