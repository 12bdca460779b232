#include "page_pool.h"

#include <cassert>

namespace stratum {

PagePool::PagePool(int32_t pages) : references_(pages, 0) {
  free_.reserve(pages);
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
}

int32_t PagePool::allocate() {
  assert(!free_.empty());
  const int32_t page = free_.back();
  free_.pop_back();
  references_[page] = 1;
  return page;
}

void PagePool::retain(int32_t page) {
  assert(references_[page] > 0);
  if (++references_[page] == 2) ++shared_;
}

void PagePool::release(int32_t page) {
  assert(references_[page] > 0);
  const int32_t left = --references_[page];
  if (left == 1) --shared_;
  if (left == 0) free_.push_back(page);
}

}  // namespace stratum
