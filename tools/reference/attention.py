"""Pairwise-gated attention of one sequence: the float64 reference, and the eager 16-bit computation it is measured by.

Both are one piece of code: `Arithmetic` says in what precision to compute and what to round wherever an eager framework
would store a tensor in its 16-bit dtype. For query head h with key/value head c = h // (q_heads / kv_heads),
D = head_dim, R = gate_dim:

    o[i] = sum_j softmax_j(q[i].k[j] / sqrt(D)) * sigmoid(qg[i].kg[j] / sqrt(R)) * v[j]

The mask is causal and aligned to the bottom right: the last query sees every key. The work goes in blocks of queries,
so that long sequences fit the memory. Inside, arrays are [kv_heads C, group G, queries n, keys L] or [C, G, n, dim].
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .bits import rounded

GRADIENTS = ("dq", "dk", "dv", "dqg", "dkg")  # of backward, in the order of Inputs
BLOCK_ELEMENTS = 1 << 25  # of one score matrix, 256 MiB in float64


class Inputs(NamedTuple):
    """One sequence: q [N,Hq,D], k v [L,Hkv,D], qg [N,Hq,R], kg [L,Hkv,R], N <= L; numpy or CuPy, any float dtype."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    qg: np.ndarray
    kg: np.ndarray


@dataclass(frozen=True)
class Arithmetic:
    """Precision of the computation, and the rounding of what would be stored."""

    dtype: type
    round: Callable[[np.ndarray], np.ndarray]


EXACT = Arithmetic(np.float64, lambda values: values)


def eager(dtype: str) -> Arithmetic:
    """What eager code computes whose tensors are `bfloat16` or `float16`."""
    return Arithmetic(np.float32, lambda values: rounded(values, dtype))


def _fold(x: np.ndarray, kv_heads: int) -> np.ndarray:
    """[n,Hq,dim] to [C,G,n,dim]."""
    return x.reshape(len(x), kv_heads, -1, x.shape[-1]).transpose(1, 2, 0, 3)


def _unfold(x: np.ndarray) -> np.ndarray:
    """The inverse of _fold."""
    return x.transpose(2, 0, 1, 3).reshape(x.shape[2], -1, x.shape[3])


def _times_keys(rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """[C,G,n,a] times [C,a,b]: the rows of a group meet their one key/value head. Returns [C,G,n,b]."""
    c, g, n, a = rows.shape
    return (rows.reshape(c, g * n, a) @ keys).reshape(c, g, n, keys.shape[-1])


class _Block:
    """Softmax p, gate g and weight w of the queries start ... stop - 1 of a sequence, with the operands they come
    from."""

    def __init__(self, x: Inputs, start: int, stop: int, arithmetic: Arithmetic) -> None:
        kv_heads, offset = x.k.shape[1], len(x.k) - len(x.q)
        self.keys, self.arithmetic = offset + stop, arithmetic
        self.q, self.qg = (_fold(a[start:stop].astype(arithmetic.dtype), kv_heads) for a in (x.q, x.qg))
        self.k, self.v, self.kg = (a[: self.keys].astype(arithmetic.dtype).transpose(1, 0, 2) for a in (x.k, x.v, x.kg))
        self.softmax_scale, self.gate_scale = (arithmetic.dtype(a.shape[-1] ** -0.5) for a in (x.q, x.qg))
        s = arithmetic.round(_times_keys(self.q, self.k.swapaxes(1, 2))) * self.softmax_scale
        xp = sys.modules[type(s).__module__.partition(".")[0]]  # numpy or cupy
        hidden = xp.arange(offset + start, offset + stop)[:, None] < xp.arange(self.keys)
        s = np.where(hidden, arithmetic.dtype(-np.inf), s)
        s -= s.max(axis=-1, keepdims=True)
        self.p = np.exp(s)
        self.p /= self.p.sum(axis=-1, keepdims=True)
        t = arithmetic.round(_times_keys(self.qg, self.kg.swapaxes(1, 2))) * self.gate_scale
        t = np.where(hidden, arithmetic.dtype(0), t)  # which may be NaN, and 0 times NaN is no 0
        self.g = 1 / (1 + np.exp(-t))
        self.w = arithmetic.round(self.p * self.g)

    def output(self) -> np.ndarray:
        """o [n,Hq,D]."""
        return _unfold(self.arithmetic.round(_times_keys(self.w, self.v)))

    def gradients(self, do: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """For do [n,Hq,D]: dq and dqg [n,Hq,dim], and what the block adds to dk, dv, dkg of each query head
        [C,G,L,dim]."""
        upstream = _fold(do.astype(self.arithmetic.dtype), len(self.k))
        dw = self.arithmetic.round(_times_keys(upstream, self.v.swapaxes(1, 2)))
        dp = dw * self.g
        dt = self.arithmetic.round(dw * self.p * self.g * (1 - self.g) * self.gate_scale)
        ds = self.p * (dp - (dp * self.p).sum(axis=-1, keepdims=True))
        ds = self.arithmetic.round(ds * self.softmax_scale)
        dq, dqg = (self.arithmetic.round(_times_keys(*pair)) for pair in ((ds, self.k), (dt, self.kg)))
        added = (rows.swapaxes(2, 3) @ right for rows, right in ((ds, self.q), (self.w, upstream), (dt, self.qg)))
        return _unfold(dq), _unfold(dqg), tuple(added)


def _blocks(x: Inputs) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK_ELEMENTS // (x.q.shape[1] * max(1, len(x.k))))
    return ((start, min(start + step, len(x.q))) for start in range(0, len(x.q), step))


def forward(x: Inputs, arithmetic: Arithmetic = EXACT) -> np.ndarray:
    """o [N,Hq,D] in the arithmetic's precision."""
    o = np.empty_like(x.q, dtype=arithmetic.dtype)
    for start, stop in _blocks(x):
        with np.errstate(over="ignore", invalid="ignore"):
            o[start:stop] = _Block(x, start, stop, arithmetic).output()
    return o


def backward(x: Inputs, do: np.ndarray, arithmetic: Arithmetic = EXACT) -> Inputs:
    """(dq, dk, dv, dqg, dkg), shaped like the inputs, in the arithmetic's precision; do [N,Hq,D]."""
    kv_heads = x.k.shape[1]
    group = x.q.shape[1] // kv_heads
    dq, dqg = (np.empty_like(a, dtype=arithmetic.dtype) for a in (x.q, x.qg))
    # Each query head's share: eager code rounds it before it sums over the group.
    shares = [
        np.zeros_like(a, dtype=arithmetic.dtype, shape=(kv_heads, group, len(a), a.shape[-1])) for a in (x.k, x.v, x.kg)
    ]
    for start, stop in _blocks(x):
        with np.errstate(over="ignore", invalid="ignore"):
            block = _Block(x, start, stop, arithmetic)
            dq[start:stop], dqg[start:stop], added = block.gradients(do[start:stop])
            for share, addend in zip(shares, added):
                share[:, :, : block.keys] += addend
    dk, dv, dkg = (arithmetic.round(arithmetic.round(share).sum(axis=1)).swapaxes(0, 1) for share in shares)
    return Inputs(dq, dk, dv, dqg, dkg)
