// The host data of one serving call, packed so that a single copy takes it to the device:
//
//     SequenceSlice[sequences] | WorkItem[items] | DecodeSplit[splits] | PageCopy[copies]
//     | i32 block_table[sequences][table_stride]
//
// each part at a multiple of 64 bytes. Splits carry their pages: a call with them has no items and no block table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/gated.h"
#include "abi/gated_decode_sm90a.h"
#include "sequences.h"
#include "serving_sizes.h"

namespace stratum {

class CallMetadata {
 public:
  // The most bytes a call within `bounds` takes.
  static int64_t bound(const CallBounds& bounds);

  struct Parts {
    std::span<const abi::SequenceSlice> slices;
    std::span<const abi::WorkItem> items;
    std::span<const abi::DecodeSplit> splits;
    std::span<const abi::PageCopy> copies;
    std::span<const Sequence* const> sequences;  // of the block table
  };

  // Lays out a call.
  explicit CallMetadata(const Parts& parts);

  int64_t bytes() const { return bytes_; }
  int32_t table_stride() const { return table_stride_; }

  // Offsets of the parts.
  int64_t slices() const { return 0; }
  int64_t items() const { return items_at_; }
  int64_t splits() const { return splits_at_; }
  int64_t copies() const { return copies_at_; }
  int64_t block_table() const { return table_at_; }

  // Writes bytes() bytes. The table's entries past a sequence's last page are 0.
  void write(std::byte* target) const;

 private:
  Parts parts_;
  int32_t table_stride_ = 0;
  int64_t items_at_ = 0, splits_at_ = 0, copies_at_ = 0, table_at_ = 0, bytes_ = 0;
};

}  // namespace stratum
