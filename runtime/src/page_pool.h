// Reference-counted pages of the key/value cache: which are free, which are in use, which are shared. Only numbers:
// nothing here touches a device.
#pragma once

#include <cstdint>
#include <vector>

namespace stratum {

class PagePool {
 public:
  explicit PagePool(int32_t pages);

  // Takes a free page, with one reference. There must be one.
  int32_t allocate();
  // One more reference to a page in use.
  void retain(int32_t page);
  // One reference less; the page is free after the last. The page released last is allocated first, so releasing in
  // reverse order restores the pool exactly.
  void release(int32_t page);

  int32_t references(int32_t page) const { return references_[page]; }

  int64_t total() const { return static_cast<int64_t>(references_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t used() const { return total() - free(); }
  int64_t shared() const { return shared_; }  // pages with more than one reference

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;  // a stack
  int64_t shared_ = 0;
};

}  // namespace stratum
