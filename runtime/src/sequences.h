// The sequences of an engine and the pages that hold their tokens: host bookkeeping alone, without a device.
//
// Token t of a sequence lives in its page t / kPageTokens. A fork refers to its parent's pages. The only page that an
// append writes to and that may be shared is the partly filled last one: if another sequence refers to it too, the
// sequence that writes gets a copy.
//
// How many pages are enough. At most M sequences with U unique tokens (a token of a shared prefix counts once) never
// need more than floor(U / kPageTokens) + 2 M - 1 pages:
//   - Call pages that hold copies of the same tokens a class. A class is either full (some sequence sees all of a page
//     of it, so it holds kPageTokens unique tokens of its own), or every page of it is the last page of each sequence
//     that refers to it. There are at most floor(U / kPageTokens) of the first kind, and at most M of the second,
//     since a sequence has one last page.
//   - A class of c pages splits the sequences that refer to it into c groups that share nothing from there on. Splits
//     nest, and M sequences can be split M - 1 times, so over all classes the sum of c - 1 is at most M - 1.
// A call is no worse than its end: a copied page stays in use by the sequences that it was copied for.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "abi/gated.h"
#include "page_pool.h"

namespace stratum {

// Pages to hold `tokens` consecutive tokens.
constexpr int64_t pages_for(int64_t tokens) { return (tokens + abi::kPageTokens - 1) / abi::kPageTokens; }

// Pages that hold any set of at most `max_sequences` (1 or more) sequences with at most `unique_tokens` unique tokens.
constexpr int64_t pages_bound(int64_t unique_tokens, int64_t max_sequences) {
  return unique_tokens / abi::kPageTokens + 2 * max_sequences - 1;
}

struct Sequence {
  int64_t length = 0;
  std::vector<int32_t> pages;  // pages_for(length) of them
  uint64_t last_append = 0;    // the append that named it last, to find an id given twice
};

class SequenceTable;

// New tokens for some sequences: made with all the pages they need, or not at all. Taken back when it goes out of scope
// unless committed.
class Append {
 public:
  // One sequence of the append, in the order of the call.
  struct Item {
    Sequence* sequence;  // already at its new length
    int64_t cached;      // tokens before the append
    int64_t added;
    int32_t copied_from;  // the shared last page that a copy replaced, or -1
  };

  Append(Append&& other) noexcept;
  Append(const Append&) = delete;
  Append& operator=(const Append&) = delete;
  Append& operator=(Append&&) = delete;
  ~Append();

  std::span<const Item> items() const { return items_; }
  // Pages to copy before the new tokens are written.
  std::span<const abi::PageCopy> copies() const { return copies_; }

  // The device work is queued: keep the new tokens.
  void commit() { table_ = nullptr; }

 private:
  friend class SequenceTable;
  explicit Append(SequenceTable* table) : table_(table) {}

  SequenceTable* table_;
  std::vector<Item> items_;
  std::vector<size_t> order_;  // indices of items_ in the order in which they were given pages
  std::vector<abi::PageCopy> copies_;
};

class SequenceTable {
 public:
  // `pages` in the pool; at most `max_sequences` alive, each of at most `max_seq_len` tokens.
  SequenceTable(int32_t pages, int64_t max_sequences, int64_t max_seq_len);

  // Errors of all functions: UNKNOWN_SEQUENCE for an id that is not alive.

  // A new empty sequence. Ids count from 1 and are never used again. PAGES_EXHAUSTED at max_sequences.
  int64_t create();
  // A new sequence with the parent's tokens. PAGES_EXHAUSTED at max_sequences.
  int64_t fork(int64_t parent);
  void release(int64_t id);
  // Keeps the oldest `length` tokens. LENGTH_ERROR if there are fewer.
  void truncate(int64_t id, int64_t length);
  int64_t length(int64_t id) const;

  // Appends lengths[i] tokens to sequence ids[i]. LENGTH_ERROR: an id given twice, a negative length, a sequence that
  // would pass max_seq_len. PAGES_EXHAUSTED: with the pages needed and free.
  Append append(std::span<const int64_t> ids, std::span<const int64_t> lengths);

  int64_t alive() const { return static_cast<int64_t>(sequences_.size()); }
  const PagePool& pool() const { return pool_; }
  const Sequence& at(int64_t id) const;

 private:
  friend class Append;

  Sequence& find(int64_t id);
  void check_capacity() const;
  int64_t pages_needed(std::span<const Append::Item> items);
  void undo(const Append& append);

  PagePool pool_;
  int64_t max_sequences_, max_seq_len_;
  int64_t next_id_ = 1;
  uint64_t appends_ = 0;
  std::unordered_map<int64_t, Sequence> sequences_;
};

}  // namespace stratum
