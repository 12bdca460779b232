#include "call_metadata.h"

#include <algorithm>
#include <cstring>

namespace stratum {
namespace {

constexpr int64_t kAlignment = 16;

struct Layout {
  int64_t items_at, copies_at, table_at, bytes;
};

Layout lay_out(int64_t sequences, int64_t items, int64_t copies, int64_t table_stride) {
  const auto align = [](int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  Layout layout;
  layout.items_at = align(sequences * int64_t{sizeof(abi::SequenceSlice)});
  layout.copies_at = layout.items_at + align(items * int64_t{sizeof(abi::WorkItem)});
  layout.table_at = layout.copies_at + align(copies * int64_t{sizeof(abi::PageCopy)});
  layout.bytes = layout.table_at + align(sequences * table_stride * int64_t{sizeof(int32_t)});
  return layout;
}

template <typename T>
void copy_part(std::byte* target, std::span<const T> part) {
  if (!part.empty()) std::memcpy(target, part.data(), part.size_bytes());
}

}  // namespace

int64_t CallMetadata::bound(const CallBounds& bounds) {
  return lay_out(bounds.sequences, bounds.items, bounds.sequences, bounds.table_stride).bytes;
}

CallMetadata::CallMetadata(std::span<const abi::SequenceSlice> slices, std::span<const abi::WorkItem> items,
                           std::span<const abi::PageCopy> copies, std::span<const Sequence* const> sequences)
    : slice_data_(slices), item_data_(items), copy_data_(copies), sequences_(sequences) {
  size_t longest = 0;
  for (const Sequence* sequence : sequences) longest = std::max(longest, sequence->pages.size());
  table_stride_ = static_cast<int32_t>(longest);
  const Layout layout = lay_out(static_cast<int64_t>(slices.size()), static_cast<int64_t>(items.size()),
                                static_cast<int64_t>(copies.size()), table_stride_);
  items_at_ = layout.items_at;
  copies_at_ = layout.copies_at;
  table_at_ = layout.table_at;
  bytes_ = layout.bytes;
}

void CallMetadata::write(std::byte* target) const {
  copy_part(target + slices(), slice_data_);
  copy_part(target + items(), item_data_);
  copy_part(target + copies(), copy_data_);
  std::byte* row = target + block_table();
  const size_t row_bytes = static_cast<size_t>(table_stride_) * sizeof(int32_t);
  for (const Sequence* sequence : sequences_) {
    const size_t used = sequence->pages.size() * sizeof(int32_t);
    std::memcpy(row, sequence->pages.data(), used);
    std::memset(row + used, 0, row_bytes - used);
    row += row_bytes;
  }
}

}  // namespace stratum
