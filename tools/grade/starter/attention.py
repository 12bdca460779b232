"""The operation in eager PyTorch, for one sequence, a step of queries and heads at a time.

Arrays are [tokens, heads, dim]; the queries are the last tokens of the sequence. In a step the query heads of one
key/value head are the rows of one matrix: [kv heads, group · queries, dim]. A tensor is dropped as soon as it has been
used: memory.py counts on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch

from .memory import Step

Keys = Callable[[slice], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def forward(out: torch.Tensor, q: torch.Tensor, qg: torch.Tensor, keys: Keys, count: int, kv_heads: int, step: Step):
    """Writes o [n,Hq,D] to `out`, for q [n,Hq,D] and qg [n,Hq,R].

    keys: called with a slice of key/value heads, gives their k, v [H,count,D] and kg [H,count,R]. count: keys, at least
    n. step: how much to do at once.
    """
    for kv, heads in _head_steps(kv_heads, q.shape[1], step):
        k, v, kg = keys(kv)
        for block, visible in _query_steps(len(q), count, step):
            rows, gate_rows = _fold(q[block, heads], len(k)), _fold(qg[block, heads], len(k))
            p, g = _softmax_and_gate(rows, gate_rows, k[:, :visible], kg[:, :visible], block.stop - block.start)
            w = p.mul_(g)
            del p, g
            w = w.to(q.dtype)
            _store(out[block, heads], _product(w, v[:, :visible]))
            del w
        del k, v, kg  # before the next heads' are made


def backward(gradients, q, k, v, qg, kg, do, step: Step) -> None:
    """Writes the gradients dq, dk, dv, dqg, dkg, shaped like the inputs, for do [S,Hq,D].

    With p the softmax, g the gate and w = p g:

        dw = do·v            dv = wᵀ do
        ds = w dw − p rowsum(w dw)          dq = ds k / sqrt(D)       dk = dsᵀ q / sqrt(D)
        dt = w dw (1 − g)                   dqg = dt kg / sqrt(R)     dkg = dtᵀ qg / sqrt(R)

    dk, dv and dkg are summed over the steps in float32, in their order.
    """
    dq, dk, dv, dqg, dkg = gradients
    dtype, count = q.dtype, len(q)
    for kv, heads in _head_steps(k.shape[1], q.shape[1], step):
        keys, values, gate_keys = (x[:, kv].transpose(0, 1) for x in (k, v, kg))
        key_sum, value_sum, gate_sum = (torch.zeros_like(x, dtype=torch.float32) for x in (keys, values, gate_keys))
        for block, visible in _query_steps(count, count, step):
            rows, gate_rows, upstream = (_fold(x[block, heads], len(keys)) for x in (q, qg, do))
            seen_keys, seen_values, seen_gates = (x[:, :visible] for x in (keys, values, gate_keys))
            p, g = _softmax_and_gate(rows, gate_rows, seen_keys, seen_gates, block.stop - block.start)
            w = p * g
            value_sum[:, :visible] += _product32(w.to(dtype).transpose(1, 2), upstream)
            dw = _product(upstream, seen_values.transpose(1, 2)).float()
            wdw = w.mul_(dw)
            del w, dw
            dt = g.neg_().add_(1).mul_(wdw).div_(math.sqrt(qg.shape[2]))
            del g
            ds = wdw.sub_(p.mul_(wdw.sum(-1, keepdim=True))).div_(math.sqrt(q.shape[2]))
            del p, wdw
            dt = dt.to(dtype)
            gate_sum[:, :visible] += _product32(dt.transpose(1, 2), gate_rows)
            _store(dqg[block, heads], _product(dt, seen_gates))
            del dt
            ds = ds.to(dtype)
            key_sum[:, :visible] += _product32(ds.transpose(1, 2), rows)
            _store(dq[block, heads], _product(ds, seen_keys))
            del ds
        for gradient, total in ((dk, key_sum), (dv, value_sum), (dkg, gate_sum)):
            gradient[:, kv].copy_(total.transpose(0, 1))
        del key_sum, value_sum, gate_sum, total  # before the next heads' are made


def _head_steps(kv_heads: int, q_heads: int, step: Step) -> Iterator[tuple[slice, slice]]:
    """Slices of key/value heads, each with that of its query heads."""
    group = q_heads // kv_heads
    for first in range(0, kv_heads, step.heads):
        last = min(first + step.heads, kv_heads)
        yield slice(first, last), slice(first * group, last * group)


def _query_steps(queries: int, keys: int, step: Step) -> Iterator[tuple[slice, int]]:
    """Slices of queries, each with the number of keys that its last query sees."""
    for start in range(0, queries, step.queries):
        stop = min(start + step.queries, queries)
        yield slice(start, stop), keys - queries + stop


def _fold(x: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """[n, Hq, dim] to [kv_heads, group · n, dim]."""
    return x.unflatten(1, (kv_heads, -1)).permute(1, 2, 0, 3).reshape(kv_heads, -1, x.shape[2])


def _store(out: torch.Tensor, rows: torch.Tensor) -> None:
    """Writes [kv heads, group · n, dim] to an output [n, Hq, dim]: the inverse of _fold."""
    unfolded = rows.unflatten(1, (-1, len(out))).permute(2, 0, 1, 3)
    out.unflatten(1, unfolded.shape[1:3]).copy_(unfolded)


def _softmax_and_gate(q, qg, k, kg, queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax p and gate g of a step, float32 [H, group · queries, keys]; the last query sees the last key.

    q [H, group · queries, D], qg [H, group · queries, R], k [H, keys, D], kg [H, keys, R].
    """
    count = k.shape[1]
    positions = torch.arange(count, device=k.device)
    hidden = positions > positions[count - queries :, None]
    s = _product(q, k.transpose(1, 2)).float().div_(math.sqrt(q.shape[2]))
    s.unflatten(1, (-1, queries)).masked_fill_(hidden, -math.inf)
    p = torch.softmax(s, -1)
    del s
    g = _product(qg, kg.transpose(1, 2)).float().div_(math.sqrt(qg.shape[2])).sigmoid_()
    return p, g


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b in their 16-bit dtype, summed in float32. The CPU's own 16-bit products would round the sums, or lack."""
    return torch.bmm(a, b) if a.is_cuda else _product32(a, b).to(a.dtype)


def _product32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b in float32, of 16-bit operands."""
    return torch.bmm(a, b, out_dtype=torch.float32) if a.is_cuda else torch.bmm(a.float(), b.float())
