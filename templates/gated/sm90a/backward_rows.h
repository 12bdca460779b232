// A consumer's own rows in shared memory: the gate's scale multiplied in before the loop, results staged behind it.
#pragma once

#include "device/shared_tile.h"
#include "device/tma.h"
#include "device/wgmma.h"
#include "gated/sm90a/backward_pair.h"
#include "gated/sm90a/backward_tile.h"
#include "gated/sm90a/consumer_turns.h"

namespace stratum::gated::sm90a {

// Multiplies the own rows of the gate by half its scale, once, so that the loop needs no multiplication for tanh's
// argument: exact for gate_dim 64 (1/16), rounded to the elements' type for 32. All threads of the consumer.
template <class Tile>
STRATUM_DEVICE void scale_own_gate(u32 own, float gate_half_scale, int consumer) {
  using Element = typename Tile::Element;
  const u32 scale = Element::pack(gate_half_scale, gate_half_scale);
  const u32 chunk = own + Tile::own_gate_at + (threadIdx.x & 127) * 16;
#pragma unroll
  for (int i = 0; i < Tile::OwnGate::bytes / 2048; ++i) {
    const uint4 old = load_shared_16(chunk + i * 2048);
    store_shared_16(chunk + i * 2048,
                    {Packed<Element>::multiply(old.x, scale), Packed<Element>::multiply(old.y, scale),
                     Packed<Element>::multiply(old.z, scale), Packed<Element>::multiply(old.w, scale)});
  }
  fence_proxy_async();
  consumer_sync(consumer);
}

// Rounds a warp's 16 rows of sums to elements and puts them into its rows of `tile`, as TMA stores take them.
template <class Element, class Tile>
STRATUM_DEVICE void stage_rows(u32 tile, const float (&sums)[Tile::columns / 2], float scale, int warp, int lane) {
  const int row = warp * 16 + (lane & 15);
#pragma unroll
  for (int k = 0; k < Tile::columns / 16; ++k) {
    u32 packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = Element::pack(sums[8 * k + 2 * i] * scale, sums[8 * k + 2 * i + 1] * scale);
    constexpr int chunks = Tile::block_columns / 8;
    const u32 address =
        tile + 2 * k / chunks * Tile::block_bytes + Tile::chunk_offset(row, 2 * k % chunks + (lane >> 4));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(packed[0]),
                 "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                 : "memory");
  }
}

// Starts the store of 64 staged rows. One thread.
template <class Tile>
STRATUM_DEVICE void store_rows(const abi::TensorMap& map, u32 tile, int head, int row, int batch) {
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) {
    tma_store(map, tile + block * Tile::block_bytes, block * Tile::block_columns, head, row, batch);
  }
}

// Starts the load of 64 own rows or of a stage's. One thread.
template <class Tile>
STRATUM_DEVICE void load_rows(u32 tile, const abi::TensorMap& map, u32 barrier, int head, int row, int batch) {
#pragma unroll
  for (int block = 0; block < Tile::blocks; ++block) {
    tma_load(tile + block * Tile::block_bytes, map, barrier, block * Tile::block_columns, head, row, batch);
  }
}

// Sums start at 0, and in registers before any product adds to them.
template <int kCount>
STRATUM_DEVICE void clear(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = 0.f;
  hold(sums);
}

}  // namespace stratum::gated::sm90a
