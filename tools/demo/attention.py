"""Pairwise-gated attention in numpy: the float64 reference, and the eager 16-bit computation it is measured against.

Both are one piece of code: `rounding` is applied wherever an eager framework would store a tensor in its 16-bit
dtype. With no rounding and float64 inputs the result is the reference.

For query head h with key/value head c = h // (q_heads / kv_heads), D = head_dim, R = gate_dim:

    o[i] = sum_j softmax_j(q[i].k[j] / sqrt(D)) * sigmoid(qg[i].kg[j] / sqrt(R)) * v[j]

The mask is causal and aligned to the bottom right: the last query sees every key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Rounding = Callable[[np.ndarray], np.ndarray]


def to_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds to `bfloat16` or `float16`, to nearest even; returns the raw bits as uint16."""
    if dtype == "float16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def from_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values of raw `bfloat16` or `float16` bits."""
    if dtype == "float16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def exact(values: np.ndarray) -> np.ndarray:
    """The rounding of the reference: none."""
    return values


def rounding_to(dtype: str) -> Rounding:
    """The rounding of the eager computation in `bfloat16` or `float16`."""
    return lambda values: from_bits(to_bits(values, dtype), dtype)


@dataclass
class Weights:
    """What forward leaves for backward, each [Hq, Sq, Sk]: softmax p, gate g, weight w = p g as stored."""

    p: np.ndarray
    g: np.ndarray
    w: np.ndarray


def expand_heads(x: np.ndarray, q_heads: int) -> np.ndarray:
    """[S, Hkv, dim] → [Hq, S, dim], each key/value head repeated for the query heads of its group."""
    return np.repeat(x, q_heads // x.shape[1], axis=1).swapaxes(0, 1)


def sum_heads(x: np.ndarray, kv_heads: int) -> np.ndarray:
    """[Hq, S, dim] → [S, Hkv, dim], summed over each group: the transpose of `expand_heads`."""
    return x.reshape(kv_heads, -1, *x.shape[1:]).sum(axis=1).swapaxes(0, 1)


def forward(q, k, v, qg, kg, rounding: Rounding = exact) -> tuple[np.ndarray, Weights]:
    """One sequence: q [Sq,Hq,D], k v [Sk,Hkv,D], qg [Sq,Hq,R], kg [Sk,Hkv,R]. Returns o [Sq,Hq,D], Weights."""
    heads = q.shape[1]
    queries, gates = q.swapaxes(0, 1), qg.swapaxes(0, 1)
    keys, values, gate_keys = (expand_heads(x, heads) for x in (k, v, kg))
    hidden = np.triu(np.ones((q.shape[0], k.shape[0]), bool), k.shape[0] - q.shape[0] + 1)

    s = rounding(queries @ keys.swapaxes(1, 2)) / q.dtype.type(np.sqrt(q.shape[2]))
    t = rounding(gates @ gate_keys.swapaxes(1, 2)) / q.dtype.type(np.sqrt(qg.shape[2]))
    s = np.where(hidden, -np.inf, s)
    p = np.exp(s - s.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    g = 1 / (1 + np.exp(-t))
    w = rounding(p * g)
    return rounding(w @ values).swapaxes(0, 1), Weights(p, g, w)


def backward(q, k, v, qg, kg, do, weights: Weights, rounding: Rounding = exact) -> tuple[np.ndarray, ...]:
    """Gradients (dq, dk, dv, dqg, dkg), shaped like the inputs; do [Sq,Hq,D]. `weights` are forward's."""
    heads, kv_heads = q.shape[1], k.shape[1]
    queries, gates, upstream = (x.swapaxes(0, 1) for x in (q, qg, do))
    keys, values, gate_keys = (expand_heads(x, heads) for x in (k, v, kg))
    p, g, w = weights.p, weights.g, weights.w

    dw = rounding(upstream @ values.swapaxes(1, 2))
    dp = dw * g
    ds = rounding(p * (dp - (dp * p).sum(axis=2, keepdims=True)) / q.dtype.type(np.sqrt(q.shape[2])))
    dt = rounding(dw * p * g * (1 - g) / q.dtype.type(np.sqrt(qg.shape[2])))

    dq = rounding(ds @ keys).swapaxes(0, 1)
    dqg = rounding(dt @ gate_keys).swapaxes(0, 1)
    dk, dv, dkg = (
        rounding(sum_heads(rounding(left.swapaxes(1, 2) @ right), kv_heads))
        for left, right in ((ds, queries), (w, upstream), (dt, gates))
    )
    return dq, dk, dv, dqg, dkg
