#include "call_metadata.h"

#include <algorithm>
#include <cstring>

namespace stratum {
namespace {

constexpr int64_t kAlignment = 64;

struct Layout {
  int64_t items_at, splits_at, copies_at, table_at, bytes;
};

Layout lay_out(int64_t sequences, int64_t items, int64_t splits, int64_t copies, int64_t table_entries) {
  const auto align = [](int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  Layout layout;
  layout.items_at = align(sequences * int64_t{sizeof(abi::SequenceSlice)});
  layout.splits_at = layout.items_at + align(items * int64_t{sizeof(abi::WorkItem)});
  layout.copies_at = layout.splits_at + align(splits * int64_t{sizeof(abi::DecodeSplit)});
  layout.table_at = layout.copies_at + align(copies * int64_t{sizeof(abi::PageCopy)});
  layout.bytes = layout.table_at + align(table_entries * int64_t{sizeof(int32_t)});
  return layout;
}

template <typename T>
void copy_part(std::byte* target, std::span<const T> part) {
  if (!part.empty()) std::memcpy(target, part.data(), part.size_bytes());
}

}  // namespace

int64_t CallMetadata::bound(const CallBounds& bounds) {
  return lay_out(bounds.sequences, bounds.items, bounds.splits, bounds.sequences,
                 bounds.sequences * bounds.table_stride)
      .bytes;
}

CallMetadata::CallMetadata(const Parts& parts) : parts_(parts) {
  const auto count = [](const auto& part) { return static_cast<int64_t>(part.size()); };
  size_t longest = 0;
  for (const Sequence* sequence : parts.sequences) longest = std::max(longest, sequence->pages.size());
  table_stride_ = static_cast<int32_t>(longest);
  const Layout layout = lay_out(count(parts.slices), count(parts.items), count(parts.splits), count(parts.copies),
                                count(parts.sequences) * table_stride_);
  items_at_ = layout.items_at;
  splits_at_ = layout.splits_at;
  copies_at_ = layout.copies_at;
  table_at_ = layout.table_at;
  bytes_ = layout.bytes;
}

void CallMetadata::write(std::byte* target) const {
  copy_part(target + slices(), parts_.slices);
  copy_part(target + items(), parts_.items);
  copy_part(target + splits(), parts_.splits);
  copy_part(target + copies(), parts_.copies);
  std::byte* row = target + block_table();
  const size_t row_bytes = static_cast<size_t>(table_stride_) * sizeof(int32_t);
  for (const Sequence* sequence : parts_.sequences) {
    const size_t used = sequence->pages.size() * sizeof(int32_t);
    std::memcpy(row, sequence->pages.data(), used);
    std::memset(row + used, 0, row_bytes - used);
    row += row_bytes;
  }
}

}  // namespace stratum
