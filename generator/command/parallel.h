// Running independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace stratum::gen {

// Cores that this process may run on.
int available_cores();

// Calls `work(0)` ... `work(count - 1)`, each once, on up to `jobs` threads (0: one a core). After an exception no
// further piece is started, and the first exception is thrown when those under way are done.
void parallel_for(size_t count, int jobs, const std::function<void(size_t)>& work);

}  // namespace stratum::gen
