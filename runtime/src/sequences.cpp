#include "sequences.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "error.h"

namespace stratum {
namespace {

constexpr int64_t kPageTokens = abi::kPageTokens;

// Whether an append after `length` tokens writes into the last page there is.
bool writes_to_last_page(int64_t length, int64_t added) { return added > 0 && length % kPageTokens != 0; }

}  // namespace

Append::Append(Append&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)),
      items_(std::move(other.items_)),
      order_(std::move(other.order_)),
      copies_(std::move(other.copies_)) {}

Append::~Append() {
  if (table_ != nullptr) table_->undo(*this);
}

SequenceTable::SequenceTable(int32_t pages, int64_t max_sequences, int64_t max_seq_len)
    : pool_(pages), max_sequences_(max_sequences), max_seq_len_(max_seq_len) {}

int64_t SequenceTable::create() {
  check_capacity();
  sequences_.emplace(next_id_, Sequence{});
  return next_id_++;
}

int64_t SequenceTable::fork(int64_t parent) {
  check_capacity();
  Sequence child = find(parent);
  const auto [position, inserted] = sequences_.emplace(next_id_, std::move(child));
  for (const int32_t page : position->second.pages) pool_.retain(page);
  return next_id_++;
}

void SequenceTable::release(int64_t id) {
  Sequence& sequence = find(id);
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) pool_.release(*page);
  sequences_.erase(id);
}

void SequenceTable::truncate(int64_t id, int64_t length) {
  Sequence& sequence = find(id);
  if (length < 0 || length > sequence.length) {
    fail(STRATUM_LENGTH_ERROR, "length", "expected 0 to {}, the tokens of sequence {}, got {}", sequence.length, id,
         length);
  }
  while (static_cast<int64_t>(sequence.pages.size()) > pages_for(length)) {
    pool_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
  sequence.length = length;
}

int64_t SequenceTable::length(int64_t id) const { return at(id).length; }

const Sequence& SequenceTable::at(int64_t id) const { return const_cast<SequenceTable*>(this)->find(id); }

Sequence& SequenceTable::find(int64_t id) {
  const auto position = sequences_.find(id);
  if (position != sequences_.end()) return position->second;
  const bool existed = id >= 1 && id < next_id_;
  fail(STRATUM_UNKNOWN_SEQUENCE, "id", "sequence {} was {}", id, existed ? "released" : "never created");
}

void SequenceTable::check_capacity() const {
  if (alive() < max_sequences_) return;
  fail(STRATUM_PAGES_EXHAUSTED, "max_sequences", "needed 1 more sequence, 0 free of {}: release one first",
       max_sequences_);
}

Append SequenceTable::append(std::span<const int64_t> ids, std::span<const int64_t> lengths) {
  ++appends_;
  Append append(nullptr);
  append.items_.reserve(ids.size());
  append.copies_.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    Sequence& sequence = find(ids[i]);
    if (std::exchange(sequence.last_append, appends_) == appends_) {
      fail(STRATUM_LENGTH_ERROR, "ids", "sequence {} is given twice; an id may appear once in a call", ids[i]);
    }
    if (lengths[i] < 0 || lengths[i] > max_seq_len_ - sequence.length) {
      fail(STRATUM_LENGTH_ERROR, "lengths",
           "expected 0 to {} new tokens for sequence {} (max_seq_len {}, {} cached), got {}",
           max_seq_len_ - sequence.length, ids[i], max_seq_len_, sequence.length, lengths[i]);
    }
    append.items_.push_back({&sequence, sequence.length, lengths[i], -1});
  }
  const int64_t needed = pages_needed(append.items_);
  if (needed > pool_.free()) {
    fail(STRATUM_PAGES_EXHAUSTED, "", "needed {} pages of {} tokens, {} free of {}", needed, kPageTokens, pool_.free(),
         pool_.total());
  }
  for (const Append::Item& item : append.items_) {
    item.sequence->pages.reserve(pages_for(item.cached + item.added));
  }
  // Of several sequences of the call that share their last page, the longest is the one left to write to it in place: its
  // new tokens lie behind what the others hold there, so that the page is still theirs if the call is taken back.
  append.order_.resize(append.items_.size());
  std::iota(append.order_.begin(), append.order_.end(), size_t{0});
  std::ranges::stable_sort(append.order_, {}, [&append](size_t i) { return append.items_[i].cached; });
  append.table_ = this;  // from here on nothing throws
  for (const size_t index : append.order_) {
    Append::Item& item = append.items_[index];
    std::vector<int32_t>& pages = item.sequence->pages;
    if (writes_to_last_page(item.cached, item.added) && pool_.references(pages.back()) > 1) {
      item.copied_from = pages.back();
      pages.back() = pool_.allocate();
      pool_.release(item.copied_from);
      append.copies_.push_back({item.copied_from, pages.back()});
    }
    item.sequence->length = item.cached + item.added;
    while (static_cast<int64_t>(pages.size()) < pages_for(item.sequence->length)) pages.push_back(pool_.allocate());
  }
  return append;
}

// Of several sequences that write to one shared page, the last needs no copy if nobody else refers to it by then. So
// the references are counted down as the append will do it, and put back.
int64_t SequenceTable::pages_needed(std::span<const Append::Item> items) {
  int64_t needed = 0;
  std::vector<int32_t> counted_down;
  counted_down.reserve(items.size());
  for (const Append::Item& item : items) {
    needed += pages_for(item.cached + item.added) - pages_for(item.cached);
    if (!writes_to_last_page(item.cached, item.added)) continue;
    const int32_t page = item.sequence->pages.back();
    if (pool_.references(page) == 1) continue;
    pool_.release(page);
    counted_down.push_back(page);
    ++needed;
  }
  for (const int32_t page : counted_down) pool_.retain(page);
  return needed;
}

void SequenceTable::undo(const Append& append) {
  for (auto index = append.order_.rbegin(); index != append.order_.rend(); ++index) {
    const Append::Item& item = append.items_[*index];
    std::vector<int32_t>& pages = item.sequence->pages;
    while (static_cast<int64_t>(pages.size()) > pages_for(item.cached)) {
      pool_.release(pages.back());
      pages.pop_back();
    }
    if (item.copied_from >= 0) {
      pool_.retain(item.copied_from);
      pool_.release(pages.back());
      pages.back() = item.copied_from;
    }
    item.sequence->length = item.cached;
  }
}

}  // namespace stratum
