// Decode in one launch, for chips that have such a kernel (templates/abi/gated_decode_sm90a.h): what it needs beside
// the split decode's waves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "abi/gated_decode_sm90a.h"
#include "config.h"
#include "sequences.h"
#include "work_list.h"

namespace stratum {

// The tensor maps of a cache of `blocks` blocks, (page, kv head).
struct CacheMaps {
  abi::TensorMap k, v, kg;
};

// Throws Error (DRIVER_ERROR).
CacheMaps cache_maps(const Config& config, uint64_t cache, int64_t blocks);

// The splits of decode work, wave after wave, inside a wave those of the most keys first. `slices` are as decode_work
// left them, with their sequences beside them.
std::vector<abi::DecodeSplit> list_splits(const DecodeWork& work, std::span<const abi::SequenceSlice> slices,
                                          std::span<const Sequence* const> sequences);

// Puts a wave's splits behind its sequences in the parameters, if there is room; says whether.
bool place_splits(abi::GatedDecodeSm90aParams& params, std::span<const abi::DecodeSplit> splits);

}  // namespace stratum
