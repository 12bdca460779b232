"""What a plan's tiles say that a kernel has to do, to be compared with what was counted.

Each warp has 16 rows of a tile and leaves out the column tiles of which it sees nothing. Rows and columns past the end
of a sequence are computed too, and masked.
"""

from __future__ import annotations

from dataclasses import dataclass

_ELEMENT = 2  # bytes
_STATS = 8  # bytes a row
_WARP_ROWS = 16


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
    """Of a launch: operations on the tensor cores, exponentials and tangents, bytes asked of global memory."""

    mma_flops: int
    mufu: int
    bytes: int


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _computed(shape: Shape, m: int, n: int) -> int:
    """Pairs of a query and a key that a head's warps compute: those of tiles of n keys that their 16 queries see."""
    warps = _ceil(shape.seq_len, m) * m // _WARP_ROWS
    ends = (shape.cached + min((i + 1) * _WARP_ROWS, shape.seq_len) for i in range(warps))
    return sum(_ceil(end, n) for end in ends) * _WARP_ROWS * n


def _keys(shape: Shape, m: int) -> int:
    """Keys that a head's query tiles fetch."""
    return sum(shape.cached + min((i + 1) * m, shape.seq_len) for i in range(_ceil(shape.seq_len, m)))


def forward(shape: Shape, tile: dict) -> Expected:
    """Forward and prefill: three products a pair, an exponential and a tangent each; keys come with each query tile."""
    m, n, d, r = tile["tile_m"], tile["tile_n"], shape.head_dim, shape.gate_dim
    pairs = shape.batch * shape.q_heads * _computed(shape, m, n)
    moved = (shape.seq_len + _keys(shape, m)) * (2 * d + r)
    return Expected(pairs * 2 * (2 * d + r), pairs * 2, shape.batch * shape.q_heads * moved * _ELEMENT)


def backward_dq(shape: Shape, tile: dict) -> Expected:
    """Delta from o and dout; scores, gates and dout v of each pair again; then dq and dqg."""
    m, n, d, r = tile["tile_m"], tile["tile_n"], shape.head_dim, shape.gate_dim
    heads = shape.batch * shape.q_heads
    pairs = heads * _computed(shape, m, n)
    moved = shape.seq_len * (5 * d + 2 * r) + _keys(shape, m) * (2 * d + r)
    written_too = shape.seq_len * (_STATS + 4)  # delta
    return Expected(pairs * 2 * (3 * d + 2 * r), pairs * 2, heads * (moved * _ELEMENT + written_too))


def backward_dkv(shape: Shape, tile: dict) -> Expected:
    """For each key tile the query tiles that see it, of all heads of its group: scores, gates, dout v, dv, dk, dkg."""
    m, n, d, r = tile["tile_m"], tile["tile_n"], shape.head_dim, shape.gate_dim
    tiles = _ceil(shape.seq_len, m)
    seen = sum(_ceil(shape.seq_len, n) - i * _WARP_ROWS // n for i in range(tiles * m // _WARP_ROWS))
    queries = sum(shape.seq_len - i * m // n * n for i in range(tiles))
    heads = shape.batch * shape.q_heads
    pairs = heads * max(seen, 0) * _WARP_ROWS * n
    own = shape.batch * shape.kv_heads * shape.seq_len * (2 * d + r) * 2
    return Expected(
        pairs * 2 * (4 * d + 2 * r),
        pairs * 2,
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
