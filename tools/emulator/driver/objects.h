// The objects behind handles.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace stratum::emulator::driver {

// Objects of one kind. A handle is its object's address. What was destroyed stays in memory, so that its handle is
// never given out again and a later use of it is told.
template <typename T>
class Objects {
 public:
  template <typename... Args>
  T* make(Args&&... args) {
    auto object = std::make_unique<T>(T{std::forward<Args>(args)...});
    T* handle = object.get();
    objects_[handle] = {std::move(object), true};
    ++live_;
    return handle;
  }

  // The object of a handle; null if there never was one or it was destroyed.
  T* find(const void* handle) const {
    const auto found = objects_.find(handle);
    return found != objects_.end() && found->second.live ? found->second.object.get() : nullptr;
  }

  void destroy(T* object) {
    objects_.at(object).live = false;
    --live_;
  }

  size_t live() const { return live_; }

  // All of them, or those that weren't destroyed.
  std::vector<T*> all(bool only_live = false) const {
    std::vector<T*> found;
    for (const auto& [handle, entry] : objects_) {
      if (entry.live || !only_live) found.push_back(entry.object.get());
    }
    return found;
  }

 private:
  struct Entry {
    std::unique_ptr<T> object;
    bool live = false;
  };
  std::map<const void*, Entry> objects_;
  size_t live_ = 0;
};

}  // namespace stratum::emulator::driver
