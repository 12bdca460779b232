// Memory in stream order, out of pools. Nothing is reused, so that a use of freed memory is told.
#include <algorithm>
#include <cstring>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

// Of CUmemPool_attribute.
constexpr int kFirstReuse = 1, kLastReuse = 3, kReleaseThreshold = 4, kReserved = 5, kMostReserved = 6, kUsed = 7,
              kMostUsed = 8;

// CUmemPoolProps, as far as it is looked at.
struct PoolProperties {
  int allocation_type, handle_types, location_type, location;
};

Pool* find_pool(State& s, const void* handle) {
  for (const auto& device : s.devices) {
    if (&device->default_pool == handle) return &device->default_pool;
  }
  return s.pools.find(handle);
}

template <typename F>
Result pool_call(const char* name, const void* handle, F body) {
  return call(name, [&](State& s) -> Result {
    Pool* pool = find_pool(s, handle);
    if (pool == nullptr) return s.refuse(kInvalidValue, std::string(name) + " of an unknown pool");
    return body(s, *pool);
  });
}

// The address exists at once, as in the driver.
Result allocate_async(const char* name, uint64_t* address, size_t bytes, const void* pool_handle, void* stream_handle) {
  return stream_call(name, stream_handle, [&](State& s, Stream& stream) -> Result {
    Pool* pool = pool_handle == nullptr ? stream.device->pool : find_pool(s, pool_handle);
    if (pool == nullptr) return s.refuse(kInvalidValue, std::string(name) + " from an unknown pool");
    const Result result = allocate(s, *pool->device, name, Allocation::Kind::Pool, pool, bytes, address);
    if (result != kSuccess || !stream.capture) return result;
    s.memory.find(*address)->of_graph = true;
    return submit(s, stream, {WorkKind::Allocate, [] { return kSuccess; }});
  });
}

}  // namespace

extern "C" {

Result cuMemAllocAsync(uint64_t* address, size_t bytes, void* stream) {
  return allocate_async("cuMemAllocAsync", address, bytes, nullptr, stream);
}

Result cuMemAllocFromPoolAsync(uint64_t* address, size_t bytes, void* pool, void* stream) {
  return allocate_async("cuMemAllocFromPoolAsync", address, bytes, pool, stream);
}

Result cuDeviceGetDefaultMemPool(Pool** pool, int ordinal) {
  return call("cuDeviceGetDefaultMemPool", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    *pool = &s.devices[static_cast<size_t>(ordinal)]->default_pool;
    return kSuccess;
  });
}

Result cuDeviceGetMemPool(Pool** pool, int ordinal) {
  return call("cuDeviceGetMemPool", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    *pool = s.devices[static_cast<size_t>(ordinal)]->pool;
    return kSuccess;
  });
}

Result cuDeviceSetMemPool(int ordinal, void* handle) {
  return pool_call("cuDeviceSetMemPool", handle, [&](State& s, Pool& pool) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    Device& device = *s.devices[static_cast<size_t>(ordinal)];
    if (pool.device != &device) return s.refuse(kInvalidValue, "cuDeviceSetMemPool of another device's pool");
    device.pool = &pool;
    return kSuccess;
  });
}

Result cuMemPoolCreate(Pool** pool, const PoolProperties* properties) {
  constexpr int kPinned = 1, kOnDevice = 1;
  return call("cuMemPoolCreate", [&](State& s) {
    if (properties->allocation_type != kPinned || properties->location_type != kOnDevice || properties->location < 0 ||
        properties->location >= static_cast<int>(s.devices.size())) {
      return s.refuse(kInvalidValue, "cuMemPoolCreate: expected pinned memory on a device");
    }
    if (properties->handle_types != 0) return s.refuse(kNotSupported, "cuMemPoolCreate: handles aren't emulated");
    *pool = s.pools.make(Pool{.device = s.devices[static_cast<size_t>(properties->location)].get()});
    return kSuccess;
  });
}

// Memory that is still allocated stays until it is freed.
Result cuMemPoolDestroy(void* handle) {
  return pool_call("cuMemPoolDestroy", handle, [&](State& s, Pool& pool) {
    if (&pool == &pool.device->default_pool) return s.refuse(kInvalidValue, "cuMemPoolDestroy of a default pool");
    if (pool.device->pool == &pool) pool.device->pool = &pool.device->default_pool;
    s.pools.destroy(&pool);
    return kSuccess;
  });
}

// Memory goes back when it is freed, so there is nothing to trim.
Result cuMemPoolTrimTo(void* handle, size_t) {
  return pool_call("cuMemPoolTrimTo", handle, [](State&, Pool&) { return kSuccess; });
}

Result cuMemPoolSetAttribute(void* handle, int attribute, void* value) {
  return pool_call("cuMemPoolSetAttribute", handle, [&](State& s, Pool& pool) {
    uint64_t wide = 0;
    if (attribute >= kFirstReuse && attribute <= kLastReuse) {
      std::memcpy(&pool.reuse[attribute - kFirstReuse], value, sizeof(int));
      return kSuccess;
    }
    std::memcpy(&wide, value, sizeof(wide));
    if (attribute == kReleaseThreshold) {
      pool.release_threshold = wide;
    } else if ((attribute == kMostReserved || attribute == kMostUsed) && wide == 0) {
      pool.most_used = pool.used;
    } else {
      return s.refuse(kInvalidValue,
                      "cuMemPoolSetAttribute: no attribute " + std::to_string(attribute) + " that takes this value");
    }
    return kSuccess;
  });
}

Result cuMemPoolGetAttribute(void* handle, int attribute, void* value) {
  return pool_call("cuMemPoolGetAttribute", handle, [&](State& s, Pool& pool) {
    if (attribute >= kFirstReuse && attribute <= kLastReuse) {
      std::memcpy(value, &pool.reuse[attribute - kFirstReuse], sizeof(int));
      return kSuccess;
    }
    const uint64_t wide[] = {pool.release_threshold, pool.used, pool.most_used, pool.used, pool.most_used};
    if (attribute < kReleaseThreshold || attribute > kMostUsed) {
      return s.refuse(kInvalidValue, "cuMemPoolGetAttribute: no attribute " + std::to_string(attribute));
    }
    static_assert(kReserved == kReleaseThreshold + 1 && kUsed == kReserved + 2);
    std::memcpy(value, &wide[attribute - kReleaseThreshold], sizeof(uint64_t));
    return kSuccess;
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
