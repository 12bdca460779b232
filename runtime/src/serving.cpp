#include "serving.h"

#include <algorithm>
#include <vector>

#include "call_metadata.h"
#include "context.h"
#include "error.h"
#include "observer.h"

namespace stratum {
namespace {

using cuda::driver;

constexpr unsigned char kPoison = 0xFF;        // makes NaNs in both dtypes
constexpr int64_t kPageCopyBytesAThread = 64;  // four vectors of 16 bytes in flight
constexpr int64_t kPageCopyMaxBlocks = 64;     // a page
constexpr int32_t kWarpThreads = 32;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

DecodeKind decode_kind(const Config& config, const Kernels& kernels) {
  if (!config.decode || config.batch_invariant) return DecodeKind::kNone;
  return kernels.serving(Operation::kDecode).tile.has_tensor_maps() ? DecodeKind::kFused : DecodeKind::kSplit;
}

ServingSizes sizes_of(const Config& config, const Kernels& kernels, DecodeKind decode) {
  const bool tiles = config.prefill || config.batch_invariant;
  const int32_t tile_m = tiles ? kernels.serving(Operation::kPrefill).tile.rows : 0;
  return size_serving(config, tile_m, decode);
}

}  // namespace

// What one call launches.
struct Serving::Call {
  Call(const ServingArrays& given, std::span<const abi::PageCopy> pages) : arrays(given), copies(pages) {}

  const ServingArrays& arrays;
  std::span<const abi::PageCopy> copies;
  std::vector<abi::SequenceSlice> slices;  // of the sequences with new tokens
  std::vector<const Sequence*> sequences;
  int32_t num_tokens = 0;
  std::vector<abi::WorkItem> items;
  std::vector<abi::DecodeSplit> splits;  // of the fused decode, which has no items
  std::vector<Wave> waves;               // of decode
  int32_t rows_stride = 0;               // of decode
};

Serving::Serving(const Config& config, const Kernels& kernels, MemoryAccount& account, bool host_memory, bool poison)
    : config_(config),
      kernels_(kernels),
      check_(config, host_memory),
      scales_(config),
      decode_(decode_kind(config, kernels)),
      sizes_(sizes_of(config, kernels, decode_)),
      sequences_(static_cast<int32_t>(sizes_.pages), config.max_sequences, config.max_seq_len),
      cache_(account, sizes_.cache_bytes),
      partials_(account, sizes_.partial_bytes),
      metadata_(account, sizes_.metadata_bytes),
      staging_(sizes_.metadata_bytes) {
  observer::name(cache_.data(), "the cache");
  observer::name(partials_.data(), "the partials");
  observer::name(metadata_.data(), "the metadata");
  if (decode_ == DecodeKind::kFused) {
    static_assert(abi::kPartialMark == 0xffffffffu);
    driver().memory_set_async(partials_.data(), 0xFF, static_cast<size_t>(partials_.bytes()), nullptr);
    driver().stream_synchronize(nullptr);
  }
  if (!poison) return;
  for (const DeviceBuffer* buffer : {&cache_, &partials_, &metadata_}) {
    if (buffer->bytes() > 0) {
      driver().memory_set_async(buffer->data(), kPoison, static_cast<size_t>(buffer->bytes()), nullptr);
    }
  }
  driver().stream_synchronize(nullptr);
}

void Serving::wait() const {
  if (staging_.last_event() != nullptr) driver().event_synchronize(staging_.last_event());
}

void Serving::prefill(std::span<const int64_t> ids, std::span<const int64_t> lengths, const ServingArrays& arrays,
                      cuda::Stream stream) {
  if (!config_.prefill) fail(STRATUM_CONFIG_ERROR, "modes", "the engine was built without \"prefill\"");
  run(Attention::kPrefill, ids, lengths, arrays, stream);
}

void Serving::decode(std::span<const int64_t> ids, std::span<const int64_t> lengths, const ServingArrays& arrays,
                     cuda::Stream stream) {
  if (!config_.decode) fail(STRATUM_CONFIG_ERROR, "modes", "the engine was built without \"decode\"");
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 1 && lengths[i] <= abi::kMaxDecodeTokens) continue;
    fail(STRATUM_LENGTH_ERROR, "lengths", "expected 1 to {} tokens a sequence in decode, got {} for sequence {}",
         abi::kMaxDecodeTokens, lengths[i], ids[i]);
  }
  run(config_.batch_invariant ? Attention::kPrefill : Attention::kDecode, ids, lengths, arrays, stream);
}

void Serving::run(Attention attention, std::span<const int64_t> ids, std::span<const int64_t> lengths,
                  const ServingArrays& arrays, cuda::Stream stream) {
  if (cuda::is_capturing(stream)) {
    fail(STRATUM_DEVICE_ERROR, "stream",
         "is being captured into a graph: prefill and decode cannot be, since lengths and pages are host state");
  }
  const observer::Call observed(attention == Attention::kPrefill ? "prefill" : "decode", stream);
  const int32_t num_tokens = check_arrays(lengths, arrays);
  Append append = sequences_.append(ids, lengths);
  if (num_tokens > 0) {
    Call call(arrays, append.copies());
    int32_t first_token = 0;
    for (const Append::Item& item : append.items()) {
      if (item.added == 0) continue;
      const auto added = static_cast<int32_t>(item.added);
      call.slices.push_back({first_token, added, static_cast<int32_t>(item.cached), 0});
      call.sequences.push_back(item.sequence);
      first_token += added;
    }
    call.num_tokens = num_tokens;
    list_work(attention, call);
    queue(attention, call, stream);
  }
  append.commit();
}

int32_t Serving::check_arrays(std::span<const int64_t> lengths, const ServingArrays& arrays) const {
  int64_t sum = 0;
  for (const int64_t length : lengths) {
    if (length < 0 || length > config_.max_seq_len) {
      fail(STRATUM_LENGTH_ERROR, "lengths", "expected 0 to {} (max_seq_len), got {}", config_.max_seq_len, length);
    }
    sum += length;
  }
  const int64_t d = config_.head_dim, r = config_.gate_dim;
  check_.input(arrays.q, "q", {kAnyExtent, config_.q_heads, d});
  const int64_t rows = arrays.q->shape[0];
  check_.input(arrays.k, "k", {rows, config_.kv_heads, d});
  check_.input(arrays.v, "v", {rows, config_.kv_heads, d});
  check_.input(arrays.qg, "qg", {rows, config_.q_heads, r});
  check_.input(arrays.kg, "kg", {rows, config_.kv_heads, r});
  check_.output(arrays.o, "o", {rows, config_.q_heads, d});
  if (sum != rows) {
    fail(STRATUM_LENGTH_ERROR, "lengths", "expected a sum of {}, the rows of q, got {}", rows, sum);
  }
  if (sum > 0) {
    ArrayChecker::apart({{arrays.o, "o"}},
                        {{arrays.q, "q"}, {arrays.k, "k"}, {arrays.v, "v"}, {arrays.qg, "qg"}, {arrays.kg, "kg"}});
  }
  if (sum > INT32_MAX) {
    fail(STRATUM_LENGTH_ERROR, "lengths", "expected at most {} tokens in a call, got {}", INT32_MAX, sum);
  }
  return static_cast<int32_t>(sum);
}

void Serving::list_work(Attention attention, Call& call) const {
  if (attention == Attention::kDecode) {
    const bool fused = decode_ == DecodeKind::kFused;
    DecodeWork work = decode_work(call.slices, config_.group(), config_.kv_heads, sizes_.partial_slots,
                                  fused ? abi::kDecodeWaveSequences : INT32_MAX);
    if (fused) {
      call.splits = list_splits(work, call.slices, call.sequences);
    } else {
      call.items = std::move(work.items);
    }
    call.waves = std::move(work.waves);
    call.rows_stride = work.rows_stride;
    return;
  }
  call.items = prefill_items(call.slices, kernels_.serving(Operation::kPrefill).tile.rows);
  if (static_cast<int64_t>(call.items.size()) > kMaxGridX / config_.q_heads) {
    fail(STRATUM_LENGTH_ERROR, "lengths", "expected at most {} query tiles in a call, got {}",
         kMaxGridX / config_.q_heads, call.items.size());
  }
}

void Serving::queue(Attention attention, const Call& call, cuda::Stream stream) {
  const bool fused = !call.splits.empty();
  const CallMetadata metadata({.slices = call.slices,
                               .items = call.items,
                               .splits = call.splits,
                               .copies = call.copies,
                               .sequences = fused ? std::span<const Sequence* const>() : call.sequences});
  std::byte* slot = staging_.acquire();
  metadata.write(slot);
  unsigned long long stream_id = 0;
  driver().stream_get_id(stream, &stream_id);
  if (staging_.last_event() != nullptr && stream_id != last_stream_) {
    driver().stream_wait_event(stream, staging_.last_event(), 0);
  }
  try {
    observer::forget_free_pages(cache_.data(), sizes_.page_bytes, sequences_.pool(), stream);
    observer::forget(metadata_.data(), metadata_.bytes(), stream);
    if (!fused || !call.copies.empty()) {
      driver().copy_to_device_async(metadata_.data(), slot, static_cast<size_t>(metadata.bytes()), stream);
    }
    if (!call.copies.empty()) launch_page_copy(call, metadata, stream);
    if (!fused) launch_append(call, metadata, stream);
    if (attention == Attention::kPrefill) {
      launch_prefill(call, metadata, stream);
    } else if (fused) {
      launch_fused_decode(call, metadata, slot, stream);
    } else {
      launch_decode(call, metadata, stream);
    }
    staging_.record(stream);
  } catch (...) {
    const cuda::RelaxedCapture relaxed;  // another stream of this thread may be under capture
    driver().stream_synchronize.attempt(stream);
    throw;
  }
  last_stream_ = stream_id;
}

void Serving::launch_page_copy(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const {
  const LoadedKernel& kernel = kernels_.serving(Operation::kPageCopy);
  const abi::GatedPageCopyParams params{
      .cache = cache_.pointer(),
      .copies = metadata_.pointer<abi::PageCopy>(metadata.copies()),
      .page_bytes = sizes_.page_bytes,
  };
  const int64_t blocks = ceil_div(sizes_.page_bytes, kernel.row.block * kPageCopyBytesAThread);
  launch(kernel, {.x = call.copies.size(), .y = static_cast<uint64_t>(std::min(blocks, kPageCopyMaxBlocks))}, stream,
         params);
}

void Serving::launch_append(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const {
  const LoadedKernel& kernel = kernels_.serving(Operation::kAppend);
  const abi::GatedAppendParams params{
      .k = packed(*call.arrays.k),
      .v = packed(*call.arrays.v),
      .kg = packed(*call.arrays.kg),
      .cache = cache_.pointer(),
      .sequences = metadata_.pointer<abi::SequenceSlice>(metadata.slices()),
      .block_table = metadata_.pointer<int32_t>(metadata.block_table()),
      .num_tokens = call.num_tokens,
      .num_sequences = static_cast<int32_t>(call.slices.size()),
      .kv_heads = config_.kv_heads,
      .table_stride = metadata.table_stride(),
  };
  const int64_t groups = ceil_div(call.num_tokens, kernel.tile.rows);
  launch(kernel, {.x = static_cast<uint64_t>(groups), .y = static_cast<uint64_t>(config_.kv_heads)}, stream, params);
}

void Serving::launch_prefill(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const {
  const abi::GatedPrefillParams params{
      .q = packed(*call.arrays.q),
      .qg = packed(*call.arrays.qg),
      .o = packed(*call.arrays.o),
      .cache = cache_.pointer(),
      .sequences = metadata_.pointer<abi::SequenceSlice>(metadata.slices()),
      .block_table = metadata_.pointer<int32_t>(metadata.block_table()),
      .items = metadata_.pointer<abi::WorkItem>(metadata.items()),
      .num_items = static_cast<int32_t>(call.items.size()),
      .q_heads = config_.q_heads,
      .kv_heads = config_.kv_heads,
      .table_stride = metadata.table_stride(),
      .softmax_scale_log2 = scales_.softmax_log2,
      .gate_half_scale = scales_.gate_half,
  };
  launch(kernels_.serving(Operation::kPrefill), {.x = call.items.size() * config_.q_heads}, stream, params);
}

void Serving::launch_decode(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const {
  const LoadedKernel& decode = kernels_.serving(Operation::kDecode);
  const LoadedKernel& merge = kernels_.serving(Operation::kDecodeMerge);
  const int64_t row_tiles = ceil_div(call.rows_stride, decode.tile.rows);
  auto* const partial_o = partials_.pointer<float>();
  auto* const partial_stats =
      partials_.pointer<abi::PartialStats>(sizes_.partial_slots * config_.head_dim * int64_t{sizeof(float)});
  const auto* const slices = metadata_.pointer<abi::SequenceSlice>(metadata.slices());
  for (const Wave& wave : call.waves) {
    observer::forget(partials_.data(), partials_.bytes(), stream);
    const abi::GatedDecodeParams params{
        .q = packed(*call.arrays.q),
        .qg = packed(*call.arrays.qg),
        .cache = cache_.pointer(),
        .sequences = slices,
        .block_table = metadata_.pointer<int32_t>(metadata.block_table()),
        .items = metadata_.pointer<abi::WorkItem>(metadata.items()) + wave.first_item,
        .partial_o = partial_o,
        .partial_stats = partial_stats,
        .num_items = wave.num_items,
        .q_heads = config_.q_heads,
        .kv_heads = config_.kv_heads,
        .table_stride = metadata.table_stride(),
        .rows_stride = call.rows_stride,
        .softmax_scale_log2 = scales_.softmax_log2,
        .gate_half_scale = scales_.gate_half,
        .padding = 0,
    };
    launch(decode, {.x = static_cast<uint64_t>(wave.num_items * int64_t{config_.kv_heads} * row_tiles)}, stream,
           params);
    const abi::GatedDecodeMergeParams merge_params{
        .o = packed(*call.arrays.o),
        .sequences = slices,
        .partial_o = partial_o,
        .partial_stats = partial_stats,
        .first_sequence = wave.first_sequence,
        .num_sequences = wave.num_sequences,
        .first_token = wave.first_token,
        .num_tokens = wave.num_tokens,
        .q_heads = config_.q_heads,
        .kv_heads = config_.kv_heads,
        .rows_stride = call.rows_stride,
        .softmax_scale_log2 = scales_.softmax_log2,
    };
    const int64_t rows = int64_t{wave.num_tokens} * config_.q_heads;
    launch(merge, {.x = static_cast<uint64_t>(ceil_div(rows, merge.row.block / kWarpThreads))}, stream, merge_params);
  }
}

void Serving::launch_fused_decode(const Call& call, const CallMetadata& metadata, const std::byte* slot,
                                  cuda::Stream stream) const {
  const LoadedKernel& kernel = kernels_.serving(Operation::kDecode);
  const int64_t most_blocks = int64_t{kernels_.multiprocessors()} * kernel.tile.blocks_per_sm;
  const CacheMaps maps = cache_maps(config_, cache_.data(), sizes_.pages * config_.kv_heads);
  for (const Wave& wave : call.waves) {
    const auto sequences =
        std::span(call.slices)
            .subspan(static_cast<size_t>(wave.first_sequence), static_cast<size_t>(wave.num_sequences));
    int64_t max_splits = 0;
    for (const abi::SequenceSlice& slice : sequences) {
      max_splits = std::max(max_splits, splits_for(int64_t{slice.cached} + slice.num_tokens));
    }
    abi::GatedDecodeSm90aParams params{
        .cache_k = maps.k,
        .cache_v = maps.v,
        .cache_kg = maps.kg,
        .q = packed(*call.arrays.q),
        .k = packed(*call.arrays.k),
        .v = packed(*call.arrays.v),
        .qg = packed(*call.arrays.qg),
        .kg = packed(*call.arrays.kg),
        .o = packed(*call.arrays.o),
        .cache = cache_.pointer(),
        .splits = reinterpret_cast<const abi::DecodeSplit*>(slot + metadata.splits()) + wave.first_item,
        .partial_o = partials_.pointer<float>(),
        .partial_stats =
            partials_.pointer<abi::PartialStats>(sizes_.partial_slots * config_.head_dim * int64_t{sizeof(float)}),
        .num_splits = wave.num_items,
        .num_sequences = wave.num_sequences,
        .q_heads = config_.q_heads,
        .kv_heads = config_.kv_heads,
        .rows_stride = call.rows_stride,
        .max_splits = static_cast<int32_t>(max_splits),
        .softmax_scale_log2 = scales_.softmax_log2,
        .gate_half_scale = scales_.gate_half,
        .sequences = {},
        .padding = {},
    };
    std::ranges::copy(sequences, params.sequences);
    const auto splits =
        std::span(call.splits).subspan(static_cast<size_t>(wave.first_item), static_cast<size_t>(wave.num_items));
    if (place_splits(params, splits)) params.splits = nullptr;
    const int64_t units = int64_t{wave.num_items} * config_.kv_heads * ceil_div(call.rows_stride, abi::kDecodeUnitRows);
    launch_together(kernel, static_cast<uint64_t>(std::min(units, most_blocks)), stream, &params);
  }
}

}  // namespace stratum
