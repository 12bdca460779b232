// Ends a process with an engine in a given state; the exit code must be 0. The first argument says how, the
// second is libstratum.so, the third a pack.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "stratum.h"

namespace {

struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
  }
  template <typename F>
  F* get(const char* name) const {
    return reinterpret_cast<F*>(dlsym(handle, name));
  }
  void* handle;
};

const Library* library;
stratum_engine engine;

void close_engine() {
  if (library->get<decltype(stratum_close)>("stratum_close")(engine) != STRATUM_OK) _Exit(3);
}

struct ClosedLast {
  bool wanted = false;
  ~ClosedLast() {
    if (wanted) close_engine();
  }
} closed_last;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string way = argv[1];
  // Registered before the library is loaded, so it runs after the library's own end.
  if (way == "atexit") std::atexit(close_engine);
  library = new Library(argv[2]);
  const char* config = R"({"head_dim": 64, "gate_dim": 32, "q_heads": 8, "kv_heads": 2, "max_sequences": 4,
                           "max_seq_len": 1024, "max_cached_tokens": 2048, "device": 0})";
  if (library->get<decltype(stratum_build)>("stratum_build")(config, argv[3], &engine) != STRATUM_OK) {
    std::fprintf(stderr, "%s\n", library->get<decltype(stratum_error_message)>("stratum_error_message")());
    return 2;
  }
  if (way == "destructor") closed_last.wanted = true;
  if (way == "thread") {
    std::thread([] {
      const auto create = library->get<decltype(stratum_create)>("stratum_create");
      const auto release = library->get<decltype(stratum_release)>("stratum_release");
      for (int64_t id = 0;;) {
        create(engine, &id);
        release(engine, id);
      }
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;  // and for "open", with the engine still open
}
