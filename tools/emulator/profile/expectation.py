"""What a plan's tiles say that a kernel has to do, to be compared with what was counted.

Tiles are whole: rows and keys past the end of a sequence are computed too, and masked.
"""

from __future__ import annotations

from dataclasses import dataclass

_ELEMENT = 2  # bytes
_STATS = 8  # bytes a row


@dataclass(frozen=True)
class Shape:
    """Sequences of one length, causal; `cached` tokens before them in serving."""

    batch: int
    q_heads: int
    kv_heads: int
    seq_len: int
    head_dim: int
    gate_dim: int
    cached: int = 0


@dataclass(frozen=True)
class Expected:
    """Operations on the tensor cores, exponentials and tangents, bytes that the SMs ask of global memory; of a launch."""

    mma_flops: int
    mufu: int
    bytes: int


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def visible_tiles(shape: Shape, tile_m: int, tile_n: int) -> tuple[int, int]:
    """Query tiles of a head, and pairs of a query tile and a key tile of which something is visible."""
    tiles = _ceil(shape.seq_len, tile_m)
    pairs = sum(_ceil(shape.cached + min((i + 1) * tile_m, shape.seq_len), tile_n) for i in range(tiles))
    return tiles, pairs


def forward(shape: Shape, tile: dict) -> Expected:
    """Forward and prefill: three products a pair, an exponential and a tangent each; keys come with each query tile."""
    m, n, d, r = tile["tile_m"], tile["tile_n"], shape.head_dim, shape.gate_dim
    _, pairs = visible_tiles(shape, m, n)
    heads = shape.batch * shape.q_heads
    keys = sum(shape.cached + min((i + 1) * m, shape.seq_len) for i in range(_ceil(shape.seq_len, m)))
    moved = shape.seq_len * (2 * d + r) + keys * (2 * d + r)
    return Expected(heads * pairs * m * n * 2 * (2 * d + r), heads * pairs * m * n * 2, heads * moved * _ELEMENT)


def backward_dq(shape: Shape, tile: dict) -> Expected:
    """Scores, gates and dout v of each pair again, then dq and dqg."""
    m, n, d, r = tile["tile_m"], tile["tile_n"], shape.head_dim, shape.gate_dim
    _, pairs = visible_tiles(shape, m, n)
    heads = shape.batch * shape.q_heads
    keys = sum(min((i + 1) * m, shape.seq_len) for i in range(_ceil(shape.seq_len, m)))
    moved = shape.seq_len * (4 * d + 2 * r) + keys * (2 * d + r)
    return Expected(
        heads * pairs * m * n * 2 * (3 * d + 2 * r),
        heads * pairs * m * n * 2,
        heads * (moved * _ELEMENT + shape.seq_len * _STATS),
    )


def backward_dkv(shape: Shape, tile: dict) -> Expected:
    """For each key tile the query tiles that see it, of all heads of its group: scores, gates, dout v, dv, dk, dkg."""
    m, n, d, r = tile["tile_m"], tile["tile_n"], shape.head_dim, shape.gate_dim
    tiles = _ceil(shape.seq_len, m)
    pairs = sum(_ceil(shape.seq_len, n) - (i * m) // n for i in range(tiles))
    queries = sum(shape.seq_len - min((i * m) // n * n, shape.seq_len) for i in range(tiles))
    heads = shape.batch * shape.q_heads
    own = shape.batch * shape.kv_heads * shape.seq_len * (2 * d + r) * 2
    return Expected(
        heads * pairs * m * n * 2 * (4 * d + 2 * r),
        heads * pairs * m * n * 2,
        heads * queries * ((2 * d + r) * _ELEMENT + _STATS + 4) + own * _ELEMENT,
    )


def decode(shape: Shape, tile: dict) -> Expected:
    """Every key of the cache once for all rows of a group; the partials go out in float32."""
    m, n, d, r = tile["tile_m"], tile["tile_n"], shape.head_dim, shape.gate_dim
    keys = shape.cached + shape.seq_len
    rows = shape.seq_len * shape.q_heads // shape.kv_heads
    row_tiles = _ceil(rows, m)
    splits = _ceil(keys, 512)
    heads = shape.batch * shape.kv_heads
    padded = sum(_ceil(min(512, keys - s * 512), n) * n for s in range(splits))
    moved = row_tiles * keys * (2 * d + r) * _ELEMENT + splits * rows * ((d + r) * _ELEMENT + d * 4 + _STATS)
    return Expected(heads * row_tiles * padded * m * 2 * (2 * d + r), heads * row_tiles * padded * m * 2, heads * moved)


def append(shape: Shape, tile: dict) -> Expected:
    """The new tokens' k, v and kg, read and written."""
    moved = shape.batch * shape.kv_heads * shape.seq_len * (2 * shape.head_dim + shape.gate_dim) * _ELEMENT
    return Expected(0, 0, 2 * moved)


EXPECTED = {
    "forward": forward,
    "prefill": forward,
    "backward_dq": backward_dq,
    "backward_dkv": backward_dkv,
    "decode": decode,
    "append": append,
}
