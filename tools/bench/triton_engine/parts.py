"""What several kernels share."""

import math

import triton
import triton.language as tl

LOG2_E = math.log2(math.e)
HIDDEN = tl.constexpr(-1e30)  # the score of a key that a query doesn't see; finite, so that no inf - inf arises


def score_scales(head_dim: int, gate_dim: int) -> tuple[float, float]:
    """Of softmax and gate scores, in units of ln 2 for exp2."""
    return LOG2_E / math.sqrt(head_dim), LOG2_E / math.sqrt(gate_dim)


@triton.jit
def gate(score):
    """sigmoid of a score in units of ln 2."""
    return 1.0 / (1.0 + tl.exp2(-score))


@triton.jit
def load_rows(base, stride, first, limit, COUNT: tl.constexpr, DIM: tl.constexpr, WHOLE: tl.constexpr):
    """[COUNT, DIM]: rows first, first + 1, ... of a matrix. Those from `limit` on are 0; WHOLE says there are none."""
    rows = tl.arange(0, COUNT)
    at = base + tl.cast(first, tl.int64) * stride + rows[:, None] * stride + tl.arange(0, DIM)[None, :]
    if WHOLE:
        values = tl.load(at)
    else:
        values = tl.load(at, mask=(first + rows < limit)[:, None], other=0.0)
    return values


@triton.jit
def store_rows(base, stride, first, limit, values, COUNT: tl.constexpr, DIM: tl.constexpr, WHOLE: tl.constexpr):
    """The reverse of load_rows; casts to the dtype of `base`."""
    rows = tl.arange(0, COUNT)
    at = base + tl.cast(first, tl.int64) * stride + rows[:, None] * stride + tl.arange(0, DIM)[None, :]
    values = values.to(base.dtype.element_ty)
    if WHOLE:
        tl.store(at, values)
    else:
        tl.store(at, values, mask=(first + rows < limit)[:, None])


@triton.jit
def online_softmax(s, t, v, largest, total, o):
    """(largest, total, o) after a tile of keys. s, t: scores of softmax and gate, [rows, keys]; v: [keys, dim]."""
    new_largest = tl.maximum(largest, tl.max(s, 1))
    p = tl.exp2(s - new_largest[:, None])
    rescale = tl.exp2(largest - new_largest)
    total = total * rescale + tl.sum(p, 1)
    o = tl.dot((p * gate(t)).to(v.dtype), v, o * rescale[:, None])
    return new_largest, total, o
