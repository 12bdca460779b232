// Work items, waves and the metadata of serving calls.
#include "work_list.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "call_metadata.h"
#include "fused_decode.h"
#include "serving_sizes.h"

namespace {

using namespace stratum;

std::vector<std::pair<int, int>> pairs(const std::vector<abi::WorkItem>& items) {
  std::vector<std::pair<int, int>> result;
  for (const abi::WorkItem& item : items) result.emplace_back(item.sequence, item.index);
  return result;
}

}  // namespace

TEST_CASE("Prefill's tiles: those that see the most keys first, ties in the call's order") {
  // (tokens, cached): visible keys of the tiles are 64, 128, 130 | 164, 180 | 128
  const std::vector<abi::SequenceSlice> slices = {{0, 130, 0, 0}, {130, 80, 100, 0}, {210, 64, 64, 0}};
  CHECK(pairs(prefill_items(slices, 64)) ==
        std::vector<std::pair<int, int>>{{1, 1}, {1, 0}, {0, 2}, {0, 1}, {2, 0}, {0, 0}});
  CHECK(prefill_items({}, 64).empty());
}

TEST_CASE("Decode's waves hold consecutive sequences that fit, with only the splits that exist") {
  // Splits: 511+1 tokens are one, 512+1 two, 1024+8 three.
  std::vector<abi::SequenceSlice> slices = {{0, 1, 511, 0}, {1, 1, 512, 0}, {2, 8, 1024, 0}, {10, 1, 0, 0}};
  const int32_t group = 4, kv_heads = 2;
  const int64_t slots_an_item = kv_heads * 8 * group;
  const DecodeWork work = decode_work(slices, group, kv_heads, 4 * slots_an_item);
  CHECK(work.rows_stride == 32);
  CHECK(pairs(work.items) == std::vector<std::pair<int, int>>{{0, 0}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {2, 2}, {3, 0}});
  REQUIRE(work.waves.size() == 2);
  const Wave& first = work.waves[0];
  CHECK((first.first_sequence == 0 && first.num_sequences == 2 && first.first_token == 0 && first.num_tokens == 2));
  CHECK((first.first_item == 0 && first.num_items == 3));
  const Wave& second = work.waves[1];
  CHECK((second.first_sequence == 2 && second.num_sequences == 2 && second.first_token == 2 && second.num_tokens == 9));
  CHECK((second.first_item == 3 && second.num_items == 4));
  CHECK(slices[0].first_split == 0);
  CHECK(slices[1].first_split == 1);
  CHECK(slices[2].first_split == 0);
  CHECK(slices[3].first_split == 3);
}

TEST_CASE("A workspace for everything makes one wave") {
  std::vector<abi::SequenceSlice> slices;
  for (int i = 0; i < 50; ++i) slices.push_back({i, 1, 100 * i, 0});
  const DecodeWork work = decode_work(slices, 1, 16, INT64_MAX / 2);
  REQUIRE(work.waves.size() == 1);
  CHECK(work.waves[0].num_tokens == 50);
  CHECK(work.waves[0].num_items == static_cast<int32_t>(work.items.size()));
}

TEST_CASE("A call's metadata lies within its bound, aligned, and reads back") {
  const std::vector<abi::SequenceSlice> slices = {{0, 3, 0, 0}, {3, 1, 64, 0}, {4, 130, 0, 0}};
  const std::vector<abi::WorkItem> items = {{2, 1}, {2, 0}, {1, 0}};
  const std::vector<abi::PageCopy> copies = {{5, 6}};
  const std::vector<Sequence> sequences = {{3, {9}, 0}, {65, {1, 2}, 0}, {130, {3, 4, 8}, 0}};
  const std::vector<const Sequence*> pointers = {&sequences[0], &sequences[1], &sequences[2]};
  const std::vector<abi::DecodeSplit> splits = {{3, 1, 64, 0, 5, {}, {1, 2}}};
  const CallMetadata metadata(
      {.slices = slices, .items = items, .splits = splits, .copies = copies, .sequences = pointers});
  CHECK(metadata.table_stride() == 3);
  CHECK(metadata.bytes() <= CallMetadata::bound({.sequences = 3, .items = 3, .splits = 1, .table_stride = 3}));
  for (const int64_t at :
       {metadata.slices(), metadata.items(), metadata.splits(), metadata.copies(), metadata.block_table()}) {
    CHECK(at % 64 == 0);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(metadata.bytes()), std::byte{0xAB});
  metadata.write(bytes.data());
  std::vector<int32_t> table(9);
  std::memcpy(table.data(), bytes.data() + metadata.block_table(), sizeof(int32_t) * 9);
  CHECK(table == std::vector<int32_t>{9, 0, 0, 1, 2, 0, 3, 4, 8});
  CHECK(std::memcmp(bytes.data() + metadata.slices(), slices.data(), sizeof(abi::SequenceSlice) * 3) == 0);
  CHECK(std::memcmp(bytes.data() + metadata.items(), items.data(), sizeof(abi::WorkItem) * 3) == 0);
  CHECK(std::memcmp(bytes.data() + metadata.splits(), splits.data(), sizeof(abi::DecodeSplit)) == 0);
  CHECK(std::memcmp(bytes.data() + metadata.copies(), copies.data(), sizeof(abi::PageCopy)) == 0);
}

TEST_CASE("A wave ends after as many sequences as it may have") {
  std::vector<abi::SequenceSlice> slices;
  for (int i = 0; i < 50; ++i) slices.push_back({i, 1, 0, 0});
  const DecodeWork work = decode_work(slices, 1, 16, INT64_MAX / 2, 20);
  REQUIRE(work.waves.size() == 3);
  CHECK(work.waves[1].first_sequence == 20);
  CHECK(work.waves[2].num_sequences == 10);
}

TEST_CASE("Splits carry their pages, and those of the most keys come first in their wave") {
  std::vector<abi::SequenceSlice> slices = {{0, 2, 512, 0}, {2, 1, 599, 0}};
  const std::vector<Sequence> sequences = {{514, {0, 1, 2, 3, 4, 5, 6, 7, 8}, 0},
                                           {600, {10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, 0}};
  const std::vector<const Sequence*> pointers = {&sequences[0], &sequences[1]};
  const DecodeWork work = decode_work(slices, 1, 1, INT64_MAX / 2);
  const std::vector<abi::DecodeSplit> splits = list_splits(work, slices, pointers);
  REQUIRE(splits.size() == 4);
  CHECK(splits[0].pages[7] == 7);
  CHECK(splits[1].pages[0] == 10);
  CHECK(splits[2].slots == 3);  // 88 keys of the second sequence
  CHECK(splits[2].split == 1);
  CHECK(splits[2].pages[1] == 19);
  CHECK(splits[2].pages[2] == 0);
  CHECK(splits[3].slots == 1);  // 2 keys of the first
  CHECK(splits[3].first_token == 0);
  CHECK(splits[3].num_tokens == 2);
  CHECK(splits[3].cached == 512);
}

TEST_CASE("A wave's splits are placed in the parameters as far as there is room") {
  abi::GatedDecodeSm90aParams params{};
  params.num_sequences = 4;
  std::vector<abi::DecodeSplit> splits((abi::kDecodeWaveSequences - 4) / 4);  // a split is as long as four sequences
  splits.back().slots = 77;
  REQUIRE(place_splits(params, splits));
  CHECK(params.sequences[abi::kDecodeWaveSequences - 3].first_token == 77);  // word 4 of the last split
  splits.emplace_back();
  CHECK_FALSE(place_splits(params, splits));
}
