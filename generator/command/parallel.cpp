#include "generator/command/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace stratum::gen {

int available_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(size_t count, int jobs, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take_work = [&] {
    for (size_t index = next++; index < count; index = next++) {
      try {
        work(index);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  const size_t threads = std::min(count, static_cast<size_t>(jobs > 0 ? jobs : available_cores()));
  {
    std::vector<std::jthread> pool;
    for (size_t i = 1; i < threads; ++i) pool.emplace_back(take_work);
    take_work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace stratum::gen
