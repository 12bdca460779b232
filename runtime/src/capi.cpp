// The C interface: arguments in, statuses out. What the functions do is in stratum.h.

// Everything else of the library is hidden.
#pragma GCC visibility push(default)
#include "stratum.h"
#pragma GCC visibility pop

#include <exception>
#include <new>
#include <span>
#include <string>

#include "driver.h"
#include "engine.h"
#include "error.h"
#include "registry.h"

namespace {

using namespace stratum;

struct LastError {
  std::string message, argument;
};

thread_local LastError last_error;

stratum_status report(stratum_status status, std::string argument, std::string message) {
  last_error = {.message = std::move(message), .argument = std::move(argument)};
  return status;
}

// Runs the body of a function of the interface: no exception leaves it. Success leaves the last failure's message alone,
// since a garbage collector may free an engine's memory between a caller's failure and the reading of its message.
template <typename F>
stratum_status guarded(F body) noexcept {
  try {
    body();
    return STRATUM_OK;
  } catch (const Error& error) {
    return report(error.status(), error.argument(), error.what());
  } catch (const std::bad_alloc&) {
    return report(STRATUM_INTERNAL_ERROR, "", "out of host memory");
  } catch (const std::exception& error) {
    return report(STRATUM_INTERNAL_ERROR, "", error.what());
  }
}

template <typename T>
T& result(T* pointer, const char* name) {
  if (pointer == nullptr) fail(STRATUM_SHAPE_ERROR, name, "expected a place for the result, got a null pointer");
  return *pointer;
}

const char* text(const char* pointer, const char* name) {
  if (pointer == nullptr) fail(STRATUM_CONFIG_ERROR, name, "expected text, got a null pointer");
  return pointer;
}

std::span<const int64_t> integers(const int64_t* pointer, int64_t count, const char* name) {
  if (count < 0) fail(STRATUM_LENGTH_ERROR, "count", "expected at least 0, got {}", count);
  if (count > 0 && pointer == nullptr) {
    fail(STRATUM_LENGTH_ERROR, name, "expected {} integers, got a null pointer", count);
  }
  return {pointer, static_cast<size_t>(count)};
}

cuda::Stream as_stream(uint64_t handle) { return reinterpret_cast<cuda::Stream>(handle); }

Session open(stratum_engine engine) { return Session(registry::find(engine)); }

}  // namespace

extern "C" {

int32_t stratum_abi_version(void) { return STRATUM_ABI_VERSION; }

const char* stratum_error_message(void) { return last_error.message.c_str(); }

const char* stratum_error_argument(void) { return last_error.argument.c_str(); }

stratum_status stratum_build(const char* config_json, const char* pack_directory, stratum_engine* engine) {
  return guarded([&] {
    stratum_engine& built = result(engine, "engine");
    built = registry::build(text(config_json, "config_json"), text(pack_directory, "pack_directory"));
  });
}

stratum_status stratum_close(stratum_engine engine) {
  return guarded([&] {
    // In a forked process nothing is held: the parent closes.
    if (!cuda::forked()) registry::close(engine);
  });
}

stratum_status stratum_current_device(int32_t* device) {
  return guarded([&] {
    int32_t& current = result(device, "device");
    cuda::check_not_forked();
    cuda::Device found = 0;
    // Fails where there is no current context, and before anybody initialised the driver.
    current = cuda::driver().context_get_device.attempt(&found) == cuda::kSuccess ? found : 0;
  });
}

stratum_status stratum_host_memory(int32_t* host_memory) {
  return guarded([&] {
    int32_t& is_host_memory = result(host_memory, "host_memory");
    cuda::check_not_forked();
    is_host_memory = cuda::driver().host_memory ? 1 : 0;
  });
}

stratum_status stratum_training_bytes(stratum_engine engine, int64_t batch, int64_t seq_len, int64_t* stats_bytes,
                                      int64_t* delta_bytes) {
  return guarded([&] {
    int64_t& stats = result(stats_bytes, "stats_bytes");
    int64_t& delta = result(delta_bytes, "delta_bytes");
    const Training::Workspace workspace = open(engine).training().workspace(batch, seq_len);
    stats = workspace.stats_bytes;
    delta = workspace.delta_bytes;
  });
}

stratum_status stratum_training_reserve(stratum_engine engine, int64_t bytes) {
  return guarded([&] { open(engine).reserve_training(bytes); });
}

stratum_status stratum_training_release(stratum_engine engine, int64_t bytes) {
  return guarded([&] {
    if (cuda::forked()) return;
    if (const auto found = registry::find_open(engine)) found->release_training(bytes);
  });
}

stratum_status stratum_device_allocate(stratum_engine engine, int64_t bytes, uint64_t stream, uint64_t* data) {
  return guarded([&] {
    uint64_t& allocated = result(data, "data");
    Session session = open(engine);
    allocated = session.on_device().allocate(bytes, as_stream(stream));
  });
}

stratum_status stratum_device_free(stratum_engine engine, uint64_t data, uint64_t stream) {
  return guarded([&] {
    if (cuda::forked() || data == 0) return;
    const cuda::ContextScope scope(cuda::primary_context(registry::device_of(engine)));
    cuda::driver().memory_free_async(data, as_stream(stream));
  });
}

stratum_status stratum_forward(stratum_engine engine, const stratum_array* q, const stratum_array* k,
                               const stratum_array* v, const stratum_array* qg, const stratum_array* kg,
                               const stratum_array* o, uint64_t stats, uint64_t stream) {
  return guarded([&] {
    Session session = open(engine);
    session.on_device().training().forward({q, k, v, qg, kg, o}, stats, as_stream(stream));
  });
}

stratum_status stratum_backward(stratum_engine engine, const stratum_array* q, const stratum_array* k,
                                const stratum_array* v, const stratum_array* qg, const stratum_array* kg,
                                const stratum_array* o, const stratum_array* dout, uint64_t stats, uint64_t delta,
                                const stratum_array* dq, const stratum_array* dk, const stratum_array* dv,
                                const stratum_array* dqg, const stratum_array* dkg, uint64_t stream) {
  return guarded([&] {
    Session session = open(engine);
    session.on_device().training().backward({q, k, v, qg, kg, o, dout, dq, dk, dv, dqg, dkg}, stats, delta,
                                            as_stream(stream));
  });
}

stratum_status stratum_create(stratum_engine engine, int64_t* id) {
  return guarded([&] {
    int64_t& created = result(id, "id");
    created = open(engine).serving().sequences().create();
  });
}

stratum_status stratum_fork(stratum_engine engine, int64_t parent, int64_t* id) {
  return guarded([&] {
    int64_t& created = result(id, "id");
    created = open(engine).serving().sequences().fork(parent);
  });
}

stratum_status stratum_release(stratum_engine engine, int64_t id) {
  return guarded([&] { open(engine).serving().sequences().release(id); });
}

stratum_status stratum_truncate(stratum_engine engine, int64_t id, int64_t length) {
  return guarded([&] { open(engine).serving().sequences().truncate(id, length); });
}

stratum_status stratum_length(stratum_engine engine, int64_t id, int64_t* length) {
  return guarded([&] {
    int64_t& found = result(length, "length");
    found = open(engine).serving().sequences().length(id);
  });
}

stratum_status stratum_get_memory(stratum_engine engine, stratum_memory* memory) {
  return guarded([&] {
    stratum_memory& filled = result(memory, "memory");
    filled = open(engine).memory();
  });
}

stratum_status stratum_prefill(stratum_engine engine, const int64_t* ids, const int64_t* lengths, int64_t count,
                               const stratum_array* q, const stratum_array* k, const stratum_array* v,
                               const stratum_array* qg, const stratum_array* kg, const stratum_array* o,
                               uint64_t stream) {
  return guarded([&] {
    Session session = open(engine);
    session.on_device().serving().prefill(integers(ids, count, "ids"), integers(lengths, count, "lengths"),
                                          {q, k, v, qg, kg, o}, as_stream(stream));
  });
}

stratum_status stratum_decode(stratum_engine engine, const int64_t* ids, const int64_t* lengths, int64_t count,
                              const stratum_array* q, const stratum_array* k, const stratum_array* v,
                              const stratum_array* qg, const stratum_array* kg, const stratum_array* o,
                              uint64_t stream) {
  return guarded([&] {
    Session session = open(engine);
    session.on_device().serving().decode(integers(ids, count, "ids"), integers(lengths, count, "lengths"),
                                         {q, k, v, qg, kg, o}, as_stream(stream));
  });
}

stratum_status stratum_describe(stratum_engine engine, const char** json) {
  return guarded([&] {
    static thread_local std::string description;
    const char*& described = result(json, "json");
    description = open(engine).describe();
    described = description.c_str();
  });
}

}  // extern "C"
