// The paged bookkeeping against a plain model, over 100,000 random operations.
#include "sequences.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>

#include "error.h"

namespace {

using namespace stratum;

constexpr int64_t kTokens = abi::kPageTokens;

stratum_status status_of(const auto& body) {
  try {
    body();
    return STRATUM_OK;
  } catch (const Error& error) {
    return error.status();
  }
}

// Sequences as lists of token names, and pages as their contents: what the device would hold.
class Model {
 public:
  Model(int32_t pages, int64_t max_sequences, int64_t max_seq_len)
      : table(pages, max_sequences, max_seq_len),
        contents_(static_cast<size_t>(pages), std::vector<int64_t>(kTokens)) {}

  SequenceTable table;
  std::map<int64_t, std::vector<int64_t>> tokens;

  // Appends and does what the kernels would do to the pages.
  void append(const std::vector<int64_t>& ids, const std::vector<int64_t>& lengths) {
    Append append = table.append(ids, lengths);
    for (const abi::PageCopy& copy : append.copies()) contents_[copy.target] = contents_[copy.source];
    for (size_t i = 0; i < ids.size(); ++i) {
      const Append::Item& item = append.items()[i];
      for (int64_t t = 0; t < item.added; ++t) {
        const int64_t position = item.cached + t;
        contents_[item.sequence->pages[position / kTokens]][position % kTokens] = next_token_;
        tokens[ids[i]].push_back(next_token_++);
      }
    }
    append.commit();
  }

  // Every sequence reads its own tokens back through its pages.
  bool holds(int64_t id) const {
    const Sequence& sequence = table.at(id);
    const std::vector<int64_t>& expected = tokens.at(id);
    if (sequence.length != static_cast<int64_t>(expected.size())) return false;
    if (static_cast<int64_t>(sequence.pages.size()) != pages_for(sequence.length)) return false;
    for (size_t t = 0; t < expected.size(); ++t) {
      if (contents_[sequence.pages[t / kTokens]][t % kTokens] != expected[t]) return false;
    }
    return true;
  }

  int64_t unique_tokens() const {
    std::set<int64_t> unique;
    for (const auto& [id, list] : tokens) unique.insert(list.begin(), list.end());
    return static_cast<int64_t>(unique.size());
  }

  // Counts of the pool, recomputed from the sequences.
  void check_counts() const {
    std::map<int32_t, int> references;
    for (const auto& [id, list] : tokens) {
      for (const int32_t page : table.at(id).pages) ++references[page];
    }
    REQUIRE(table.pool().used() == static_cast<int64_t>(references.size()));
    REQUIRE(table.pool().free() + table.pool().used() == table.pool().total());
    REQUIRE(table.pool().shared() ==
            std::ranges::count_if(references, [](const auto& entry) { return entry.second > 1; }));
    for (const auto& [page, count] : references) REQUIRE(table.pool().references(page) == count);
    REQUIRE(table.alive() == static_cast<int64_t>(tokens.size()));
  }

 private:
  std::vector<std::vector<int64_t>> contents_;
  int64_t next_token_ = 1;
};

}  // namespace

TEST_CASE("100,000 random operations against a plain model") {
  constexpr int64_t kMaxSequences = 12, kMaxSeqLen = 400;
  Model model(40, kMaxSequences, kMaxSeqLen);
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const auto any_id = [&] { return std::next(model.tokens.begin(), below(model.tokens.size()))->first; };
  int64_t exhausted = 0, shared = 0;

  for (int step = 0; step < 100000; ++step) {
    const int64_t choice = below(100);
    if (model.tokens.empty() || choice < 8) {
      const bool full = static_cast<int64_t>(model.tokens.size()) == kMaxSequences;
      const auto status = status_of([&] { model.tokens[model.table.create()]; });
      REQUIRE(status == (full ? STRATUM_PAGES_EXHAUSTED : STRATUM_OK));
    } else if (choice < 20) {
      const bool full = static_cast<int64_t>(model.tokens.size()) == kMaxSequences;
      const int64_t parent = any_id();
      const auto status = status_of([&] { model.tokens[model.table.fork(parent)] = model.tokens[parent]; });
      REQUIRE(status == (full ? STRATUM_PAGES_EXHAUSTED : STRATUM_OK));
    } else if (choice < 32) {
      const int64_t id = any_id();
      model.table.release(id);
      model.tokens.erase(id);
      REQUIRE(status_of([&] { model.table.length(id); }) == STRATUM_UNKNOWN_SEQUENCE);
    } else if (choice < 50) {
      const int64_t id = any_id();
      const int64_t length = below(static_cast<int64_t>(model.tokens[id].size()) + 1);
      model.table.truncate(id, length);
      model.tokens[id].resize(static_cast<size_t>(length));
    } else {
      std::vector<int64_t> ids, lengths;
      for (const auto& [id, list] : model.tokens) {
        if (below(2) == 0) continue;
        ids.push_back(id);
        const int64_t room = kMaxSeqLen - static_cast<int64_t>(list.size());
        lengths.push_back(std::min(room, choice < 80 ? below(9) : below(150)));
      }
      const int64_t free_before = model.table.pool().free();
      const auto status = status_of([&] { model.append(ids, lengths); });
      REQUIRE((status == STRATUM_OK || status == STRATUM_PAGES_EXHAUSTED));
      if (status == STRATUM_PAGES_EXHAUSTED) {
        ++exhausted;
        REQUIRE(model.table.pool().free() == free_before);
      }
      for (const int64_t id : ids) REQUIRE(model.holds(id));
    }
    shared += model.table.pool().shared() > 0 ? 1 : 0;
    if (step % 32 == 0) {
      model.check_counts();
      for (const auto& [id, list] : model.tokens) REQUIRE(model.holds(id));
      // The bound that sizes the pool.
      REQUIRE(model.table.pool().used() <= pages_bound(model.unique_tokens(), model.table.alive()));
    }
  }
  CHECK(exhausted > 100);  // the test did meet a full pool, and shared pages
  CHECK(shared > 1000);
  while (!model.tokens.empty()) {
    const int64_t id = any_id();
    model.table.release(id);
    model.tokens.erase(id);
  }
  REQUIRE(model.table.pool().free() == model.table.pool().total());
  REQUIRE(model.table.pool().shared() == 0);
}

TEST_CASE("The pool's bound is reached but not passed by the worst set of sequences") {
  // Each fork keeps a full page of the parent's less one token, and writes two of its own: a copy and a new page.
  constexpr int64_t kSequences = 8;
  Model model(64, kSequences, 1024);
  const int64_t root = model.table.create();
  model.tokens[root];
  model.append({root}, {kTokens - 1});
  std::vector<int64_t> ids{root}, lengths{2};
  for (int64_t i = 1; i < kSequences; ++i) {
    const int64_t id = model.table.fork(root);
    model.tokens[id] = model.tokens[root];
    ids.push_back(id);
    lengths.push_back(2);
  }
  model.append(ids, lengths);
  const int64_t unique = kTokens - 1 + 2 * kSequences;
  REQUIRE(model.unique_tokens() == unique);
  REQUIRE(model.table.pool().used() == 2 * kSequences);
  REQUIRE(model.table.pool().used() == unique / kTokens + 2 * kSequences - 1);
  for (const int64_t id : ids) REQUIRE(model.holds(id));
}

TEST_CASE("One page too few changes nothing, and a smaller request succeeds") {
  Model model(4, 4, 1024);
  const int64_t a = model.table.create(), b = model.table.create();
  model.tokens[a], model.tokens[b];
  model.append({a}, {kTokens});
  try {
    model.append({a, b}, {3 * kTokens, 1});
    FAIL("expected PAGES_EXHAUSTED");
  } catch (const Error& error) {
    REQUIRE(error.status() == STRATUM_PAGES_EXHAUSTED);
    REQUIRE(std::string(error.what()) == "needed 4 pages of 64 tokens, 3 free of 4");
  }
  REQUIRE(model.table.length(a) == kTokens);
  REQUIRE(model.table.length(b) == 0);
  REQUIRE(model.table.pool().free() == 3);
  model.append({a, b}, {2 * kTokens, 1});
  REQUIRE(model.table.pool().free() == 0);
  REQUIRE(model.holds(a));
  REQUIRE(model.holds(b));
}

TEST_CASE("The last writer of a shared page writes in place if nobody else refers to it") {
  Model model(3, 4, 1024);
  const int64_t a = model.table.create();
  model.tokens[a];
  model.append({a}, {10});
  const int64_t b = model.table.fork(a);
  model.tokens[b] = model.tokens[a];
  const int64_t c = model.table.fork(a);
  model.tokens[c] = model.tokens[a];
  // Three writers, one page, two free: two copies are enough.
  model.append({a, b, c}, {1, 1, 1});
  REQUIRE(model.table.pool().free() == 0);
  for (const int64_t id : {a, b, c}) REQUIRE(model.holds(id));
}

TEST_CASE("An append that is not committed leaves no trace") {
  SequenceTable table(16, 4, 1024);
  const int64_t a = table.create();
  {
    Append append = table.append(std::vector{a}, std::vector<int64_t>{70});
    append.commit();
  }
  const int64_t b = table.fork(a);
  const std::vector<int32_t> pages = table.at(a).pages;
  {
    const std::vector<int64_t> ids{a, b}, lengths{100, 5};
    const Append append = table.append(ids, lengths);
    REQUIRE(append.copies().size() == 1);
    REQUIRE(table.length(a) == 170);
  }
  REQUIRE(table.length(a) == 70);
  REQUIRE(table.length(b) == 70);
  REQUIRE(table.at(a).pages == pages);
  REQUIRE(table.at(b).pages == pages);
  REQUIRE(table.pool().used() == 2);
  REQUIRE(table.pool().shared() == 2);
  // The same append takes the same pages again.
  const Append again = table.append(std::vector{b}, std::vector<int64_t>{1});
  REQUIRE(again.copies()[0].source == pages[1]);
  REQUIRE(again.copies()[0].target == 2);
}

TEST_CASE("The longest sharer of a page writes in place, so that an append taken back has overwritten nothing") {
  for (const bool longer_first : {true, false}) {
    SequenceTable table(16, 4, 1024);
    const int64_t longer = table.create();
    table.append(std::vector{longer}, std::vector<int64_t>{100}).commit();
    const int64_t shorter = table.fork(longer);
    table.truncate(shorter, 70);
    const int32_t shared_page = table.at(longer).pages.back();
    const std::vector<int64_t> ids = longer_first ? std::vector{longer, shorter} : std::vector{shorter, longer};
    const std::vector<int64_t> lengths{1, 1};
    const Append append = table.append(ids, lengths);
    REQUIRE(table.at(longer).pages.back() == shared_page);
    REQUIRE(append.copies().size() == 1);
    REQUIRE(append.copies()[0].source == shared_page);
    REQUIRE(append.copies()[0].target == table.at(shorter).pages.back());
  }
}

TEST_CASE("Bad ids and lengths are named and change nothing") {
  SequenceTable table(16, 2, 100);
  const int64_t a = table.create(), b = table.create();
  const auto append = [&](std::vector<int64_t> ids, std::vector<int64_t> lengths) {
    return status_of([&] { table.append(ids, lengths).commit(); });
  };
  CHECK(append({a, a}, {1, 1}) == STRATUM_LENGTH_ERROR);
  CHECK(append({a, 99}, {1, 1}) == STRATUM_UNKNOWN_SEQUENCE);
  CHECK(append({a, b}, {1, 101}) == STRATUM_LENGTH_ERROR);
  CHECK(append({a}, {-1}) == STRATUM_LENGTH_ERROR);
  CHECK(table.pool().used() == 0);
  CHECK(append({a, b}, {100, 0}) == STRATUM_OK);
  CHECK(append({a}, {1}) == STRATUM_LENGTH_ERROR);
  CHECK(status_of([&] { table.truncate(a, 101); }) == STRATUM_LENGTH_ERROR);
  CHECK(status_of([&] { table.truncate(a, -1); }) == STRATUM_LENGTH_ERROR);
  CHECK(status_of([&] { table.create(); }) == STRATUM_PAGES_EXHAUSTED);
  CHECK(status_of([&] { table.fork(a); }) == STRATUM_PAGES_EXHAUSTED);
  table.release(a);
  CHECK(status_of([&] { table.release(a); }) == STRATUM_UNKNOWN_SEQUENCE);
  CHECK(table.create() == 3);  // ids are never used again
}
