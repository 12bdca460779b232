#include "machine/tensor_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "exec/trap.h"
#include "machine/async_work.h"
#include "machine/bulk_stores.h"
#include "machine/mbarriers.h"
#include "machine/poison.h"
#include "machine/watch.h"

namespace stratum::emulator {
namespace {

constexpr uint32_t kChunk = 16;  // bytes that a swizzle keeps together
constexpr uint64_t kMapAlign = 64, kBoxAlign = 128;

// 16 bytes of a box: `bytes` of them, from `first`, are the array's at the global address.
struct Chunk {
  uint32_t shared;  // offset
  uint32_t first = 0, bytes = 0;
  uint64_t global = 0;
  uint32_t undefined = 0;  // a bit for each of the 16 that has no value
};

uint64_t swizzled(uint64_t address, int swizzle) {
  const uint64_t bits = swizzle == kNoSwizzle ? 0 : (uint64_t{1} << swizzle) - 1;
  return address ^ ((address >> 7 & bits) << 4);
}

uint32_t box_bytes(const TensorMap& map) {
  uint32_t bytes = static_cast<uint32_t>(element_bytes(map.type));
  for (int axis = 0; axis < map.rank; ++axis) bytes *= map.box[axis];
  return bytes;
}

// The chunks of the box in the order in which they lie before the swizzle.
std::vector<Chunk> chunks_of(const TensorCopy& copy) {
  const TensorMap& map = copy.map;
  const int64_t element = element_bytes(map.type);
  const uint32_t row = static_cast<uint32_t>(element) * map.box[0];
  std::vector<Chunk> chunks;
  chunks.reserve(box_bytes(map) / kChunk);
  for (uint32_t at = 0, end = box_bytes(map); at < end; at += kChunk) {
    Chunk chunk{.shared = static_cast<uint32_t>(swizzled(copy.shared + at, map.swizzle) - kSharedBase)};
    int64_t global = static_cast<int64_t>(map.address);
    bool inside = true;
    for (uint32_t axis = 1, rest = at / row; axis < static_cast<uint32_t>(map.rank); ++axis) {
      const int64_t index = copy.at[axis] + static_cast<int64_t>(rest % map.box[axis]);
      rest /= map.box[axis];
      inside &= index >= 0 && index < static_cast<int64_t>(map.extents[axis]);
      global += index * static_cast<int64_t>(map.strides[axis - 1]);
    }
    // Along the innermost axis, in bytes of the array's row.
    const int64_t begin = copy.at[0] * element + at % row, size = static_cast<int64_t>(map.extents[0]) * element;
    const int64_t first = std::clamp<int64_t>(-begin, 0, kChunk), last = std::clamp<int64_t>(size - begin, 0, kChunk);
    if (inside && first < last) {
      chunk.first = static_cast<uint32_t>(first);
      chunk.bytes = static_cast<uint32_t>(last - first);
      chunk.global = static_cast<uint64_t>(global + begin + first);
    }
    chunks.push_back(chunk);
  }
  return chunks;
}

void check_box(const Warp& warp, uint32_t lane, const TensorCopy& copy) {
  const uint64_t bytes = box_bytes(copy.map), at = copy.shared - kSharedBase;
  if (copy.shared % kBoxAlign || at >= warp.shared_bytes || warp.shared_bytes - at < bytes) {
    trap_access(warp, Space::Shared, copy.shared, bytes, kBoxAlign, lane);
  }
}

void load(std::byte* shared, const std::vector<Chunk>& chunks) {
  for (const Chunk& chunk : chunks) {
    std::byte* const to = shared + chunk.shared;
    std::memset(to, 0, kChunk);
    if (chunk.bytes) std::memcpy(to + chunk.first, reinterpret_cast<const std::byte*>(chunk.global), chunk.bytes);
  }
}

}  // namespace

TensorMap find_tensor_map(const Warp& warp, uint64_t address, int rank) {
  const uint64_t offset = address - reinterpret_cast<uint64_t>(warp.parameters);
  if (offset >= warp.parameter_bytes || warp.parameter_bytes - offset < kTensorMapBytes) {
    throw Trap(Check::Operand, fmt::format("a tensor map at {:#x}: expected an address in the parameters", address));
  }
  if (offset % kMapAlign) {
    throw Trap(Check::Misaligned,
               fmt::format("a tensor map at byte {} of the parameters: not a multiple of {}", offset, kMapAlign));
  }
  const auto map = decode_tensor_map(warp.parameters + offset);
  if (!map) throw Trap(Check::Operand, fmt::format("no tensor map is at byte {} of the parameters", offset));
  if (rank != kAnyRank && map->rank != rank) {
    throw Trap(Check::Operand,
               fmt::format("a tensor map of {} axes: the instruction takes one of {}", map->rank, rank));
  }
  const bool strided =
      std::any_of(map->element_strides, map->element_strides + map->rank, [](uint32_t s) { return s != 1; });
  if (map->interleave || map->swizzle > kSwizzle128 || strided || map->nan_fill || !element_bytes(map->type)) {
    throw Trap(Check::Operand,
               "a tensor map with interleaving, packed elements, strides of elements, a fill of NaN or "
               "a swizzle of other chunks than 16 bytes: none of these is emulated");
  }
  const uint32_t row = map->box[0] * static_cast<uint32_t>(element_bytes(map->type));
  if (map->swizzle && row != 16u << map->swizzle) {
    throw Trap(Check::Operand,
               fmt::format("a box {} bytes wide with a swizzle of {}: not emulated", row, 16u << map->swizzle));
  }
  return *map;
}

void begin_tensor_load(Warp& warp, uint32_t lane, const TensorCopy& copy, uint64_t mbarrier) {
  check_box(warp, lane, copy);
  const uint32_t bytes = box_bytes(copy.map);
  const Mbarriers::Delivery delivery = warp.mbarriers->begin_copy(warp, mbarrier, bytes);
  std::vector<Chunk> chunks = chunks_of(copy);
  for (Chunk& chunk : chunks) {
    if (warp.watch) {
      warp.watch->begin_tensor_copy(warp, lane, delivery.mbarrier, delivery.phase, kSharedBase + chunk.shared, kChunk);
      if (chunk.bytes) chunk.undefined = warp.watch->tensor_read(warp, lane, chunk.global, chunk.bytes) << chunk.first;
    }
    std::memset(warp.shared + chunk.shared, kPoison, kChunk);
  }
  warp.work->begin(warp, AsyncWork::kNoChain, [&warp, delivery, bytes, chunks = std::move(chunks)] {
    load(warp.shared, chunks);
    if (warp.watch) {
      for (const Chunk& chunk : chunks) {
        warp.watch->end_tensor_copy(kSharedBase + chunk.shared, kChunk, chunk.undefined);
      }
    }
    warp.mbarriers->end_copy(delivery, bytes);
  });
}

void begin_tensor_store(Warp& warp, uint32_t lane, const TensorCopy& copy) {
  check_box(warp, lane, copy);
  BulkStores::Store store{.line = warp.step->line};
  const auto chunks = std::make_shared<const std::vector<Chunk>>(chunks_of(copy));
  if (warp.watch) {
    store.clock = warp.watch->begin_async(warp, Agent::Bulk);
    for (const Chunk& chunk : *chunks) {
      const uint32_t missing =
          warp.watch->read_async(warp, lane, Agent::Bulk, store.clock, kSharedBase + chunk.shared, kChunk);
      if (chunk.bytes) warp.watch->tensor_write(warp, lane, chunk.global, chunk.bytes, missing >> chunk.first);
    }
  }
  const auto bytes = std::make_shared<std::vector<std::byte>>(chunks->size() * kChunk);
  const uint64_t chain = warp.work->new_chain();
  store.read = warp.work->begin(warp, chain, [&warp, chunks, bytes] {
    std::byte* to = bytes->data();
    for (const Chunk& chunk : *chunks) {
      std::memcpy(to, warp.shared + chunk.shared, kChunk);
      to += kChunk;
    }
  });
  store.write = warp.work->begin(warp, chain, [chunks, bytes] {
    const std::byte* from = bytes->data();
    for (const Chunk& chunk : *chunks) {
      if (chunk.bytes) std::memcpy(reinterpret_cast<std::byte*>(chunk.global), from + chunk.first, chunk.bytes);
      from += kChunk;
    }
  });
  warp.stores->issue(lane, store);
}

}  // namespace stratum::emulator
