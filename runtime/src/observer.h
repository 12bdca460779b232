// What a stand-in driver is told beyond CUDA's own calls, so that it can hold kernels to it: the arrays of a call by
// name, and memory that holds nothing any more. With the driver of a GPU, which has no such functions, nothing happens.
#pragma once

#include <cstdint>
#include <span>

#include "driver.h"
#include "page_pool.h"
#include "stratum.h"

namespace stratum::observer {

// A call of the engine on this thread, from its start to its end. What it writes must be written whole, unless it
// fails.
class Call {
 public:
  Call(const char* name, cuda::Stream stream);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

 private:
  cuda::Stream stream_;
  int exceptions_;  // that were in flight when it began
};

enum class Use : int32_t { kRead = 0, kWritten = 1 };

// An array of 16-bit elements, or plain memory, that the thread's call was given.
void array(const stratum_array& array, const char* name, Use use);
void memory(uint64_t address, int64_t bytes, const char* name, Use use);

// Names an allocation.
void name(cuda::DevicePointer address, const char* name);
// From here on in the stream's order those bytes hold nothing; of a cache, the pages that are free.
void forget(cuda::DevicePointer address, int64_t bytes, cuda::Stream stream);
void forget_free_pages(cuda::DevicePointer cache, int64_t page_bytes, const PagePool& pool, cuda::Stream stream);

}  // namespace stratum::observer
