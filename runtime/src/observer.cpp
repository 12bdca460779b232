#include "observer.h"

#include <exception>
#include <vector>

namespace stratum::observer {
namespace {

const cuda::Observer& functions() { return cuda::driver().observer; }

}  // namespace

Call::Call(const char* name, cuda::Stream stream) : stream_(stream), exceptions_(std::uncaught_exceptions()) {
  if (functions().begin) functions().begin(name);
}

Call::~Call() {
  if (functions().end) functions().end(stream_, std::uncaught_exceptions() > exceptions_ ? 1 : 0);
}

void array(const stratum_array& array, const char* name, Use use) {
  constexpr int32_t kElementBytes = 2;
  if (!functions().array) return;
  functions().array(name, array.data, kElementBytes, array.rank, array.shape, array.stride, static_cast<int32_t>(use));
}

void memory(uint64_t address, int64_t bytes, const char* name, Use use) {
  constexpr int64_t kStride = 1;
  if (functions().array) functions().array(name, address, 1, 1, &bytes, &kStride, static_cast<int32_t>(use));
}

void name(cuda::DevicePointer address, const char* name) {
  if (functions().name && address) functions().name(address, name);
}

void forget(cuda::DevicePointer address, int64_t bytes, cuda::Stream stream) {
  if (functions().forget && bytes > 0) functions().forget(address, static_cast<uint64_t>(bytes), stream);
}

void forget_free_pages(cuda::DevicePointer cache, int64_t page_bytes, const PagePool& pool, cuda::Stream stream) {
  if (!functions().forget_pages) return;
  std::vector<uint8_t> used(static_cast<size_t>(pool.total()));
  for (size_t page = 0; page < used.size(); ++page) used[page] = pool.references(static_cast<int32_t>(page)) > 0;
  functions().forget_pages(cache, static_cast<uint64_t>(page_bytes), used.data(), used.size(), stream);
}

}  // namespace stratum::observer
