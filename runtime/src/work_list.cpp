#include "work_list.h"

#include <algorithm>
#include <cassert>

#include "serving_sizes.h"

namespace stratum {

std::vector<abi::WorkItem> prefill_items(std::span<const abi::SequenceSlice> slices, int32_t tile_m) {
  struct Tile {
    int32_t visible_keys;
    abi::WorkItem item;
  };
  std::vector<Tile> tiles;
  for (size_t s = 0; s < slices.size(); ++s) {
    for (int32_t index = 0; int64_t{index} * tile_m < slices[s].num_tokens; ++index) {
      const int64_t end = std::min<int64_t>((int64_t{index} + 1) * tile_m, slices[s].num_tokens);
      tiles.push_back({static_cast<int32_t>(slices[s].cached + end), {static_cast<int32_t>(s), index}});
    }
  }
  std::ranges::stable_sort(tiles, std::ranges::greater{}, &Tile::visible_keys);
  std::vector<abi::WorkItem> items;
  items.reserve(tiles.size());
  for (const Tile& tile : tiles) items.push_back(tile.item);
  return items;
}

DecodeWork decode_work(std::span<abi::SequenceSlice> slices, int32_t group, int32_t kv_heads, int64_t slots,
                       int32_t sequences) {
  DecodeWork work{};
  for (const abi::SequenceSlice& slice : slices) {
    work.rows_stride = std::max(work.rows_stride, slice.num_tokens * group);
  }
  const int64_t slots_an_item = int64_t{kv_heads} * work.rows_stride;
  for (size_t s = 0; s < slices.size(); ++s) {
    abi::SequenceSlice& slice = slices[s];
    const auto splits = static_cast<int32_t>(splits_for(int64_t{slice.cached} + slice.num_tokens));
    assert(splits * slots_an_item <= slots);
    if (work.waves.empty() || work.waves.back().num_sequences == sequences ||
        (work.waves.back().num_items + splits) * slots_an_item > slots) {
      work.waves.push_back({.first_sequence = static_cast<int32_t>(s),
                            .num_sequences = 0,
                            .first_token = slice.first_token,
                            .num_tokens = 0,
                            .first_item = static_cast<int64_t>(work.items.size()),
                            .num_items = 0});
    }
    Wave& wave = work.waves.back();
    slice.first_split = wave.num_items;
    for (int32_t split = 0; split < splits; ++split) work.items.push_back({static_cast<int32_t>(s), split});
    wave.num_sequences += 1;
    wave.num_tokens += slice.num_tokens;
    wave.num_items += splits;
  }
  return work;
}

}  // namespace stratum
