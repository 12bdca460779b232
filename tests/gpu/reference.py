"""What is right, and how far from it a result may be.

The reference computes in float64 by the formulas of the operation, in blocks of queries. The yardstick is the same
operation in eager PyTorch in the engine's dtype, its gradients by autograd. A result passes if its errors are, within a
floor, no more than a small multiple of the yardstick's.

Arrays here are dense: q, qg [B,N,Hq,dim] and k, v, kg [B,L,Hkv,dim] with N <= L; query i sees keys 0 ... L - N + i.
"""

import math
from collections.abc import Iterator

import torch

from .tensors import Inputs

BLOCK_ELEMENTS = 1 << 25  # of one float64 score matrix: 256 MiB
EPSILON = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
GRADIENT_NAMES = ("dq", "dk", "dv", "dqg", "dkg")


def _fold(queries: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """[B,N,Hq,dim] to [B,Hkv,group*N,dim]: the query heads of one kv head become rows of one matrix."""
    batch, count, _, dim = queries.shape
    return queries.unflatten(2, (kv_heads, -1)).permute(0, 2, 3, 1, 4).reshape(batch, kv_heads, -1, dim)


def _unfold(rows: torch.Tensor, count: int) -> torch.Tensor:
    """The inverse of _fold for `count` queries."""
    return rows.unflatten(2, (-1, count)).permute(0, 3, 1, 2, 4).flatten(2, 3)


def _hidden(group: int, queries: range, keys: int, device: torch.device) -> torch.Tensor:
    """[group*len(queries), keys] bool, true where a key lies after the query; `queries` are key positions."""
    positions = torch.arange(queries.start, queries.stop, device=device)
    return (positions[:, None] < torch.arange(keys, device=device)).repeat(group, 1)


class _Block:
    """Softmax and gate of a block of queries in float64, with the folded operands they come from."""

    def __init__(self, inputs: Inputs, start: int, stop: int) -> None:
        kv_heads, offset = inputs.k.shape[2], inputs.k.shape[1] - inputs.q.shape[1]
        self.keys = offset + stop
        self.count = stop - start
        self.softmax_scale = 1 / math.sqrt(inputs.q.shape[-1])
        self.gate_scale = 1 / math.sqrt(inputs.qg.shape[-1])
        self.q = _fold(inputs.q[:, start:stop].double(), kv_heads)
        self.qg = _fold(inputs.qg[:, start:stop].double(), kv_heads)
        self.k, self.v, self.kg = (x[:, : self.keys].double().transpose(1, 2) for x in (inputs.k, inputs.v, inputs.kg))
        scores = (self.q @ self.k.mT).mul_(self.softmax_scale)
        group = inputs.q.shape[2] // kv_heads
        hidden = _hidden(group, range(offset + start, offset + stop), self.keys, scores.device)
        self.softmax = torch.softmax(scores.masked_fill_(hidden, -math.inf), -1)
        t = (self.qg @ self.kg.mT).mul_(self.gate_scale)
        self.gate = torch.sigmoid_(t.masked_fill_(hidden, 0))  # it may be NaN, and 0 times NaN is no 0


def _blocks(inputs: Inputs) -> Iterator[tuple[int, int]]:
    batch, count, q_heads, _ = inputs.q.shape
    step = max(1, min(count, BLOCK_ELEMENTS // max(1, batch * q_heads * inputs.k.shape[1])))
    return ((start, min(start + step, count)) for start in range(0, count, step))


def reference_forward(inputs: Inputs) -> torch.Tensor:
    """o [B,N,Hq,D] in float64."""
    o = torch.empty(inputs.q.shape, dtype=torch.float64, device=inputs.q.device)
    for start, stop in _blocks(inputs):
        block = _Block(inputs, start, stop)
        o[:, start:stop] = _unfold((block.softmax * block.gate) @ block.v, block.count)
    return o


def reference_backward(inputs: Inputs, do: torch.Tensor) -> Inputs:
    """(dq, dk, dv, dqg, dkg) in float64 for the upstream gradient do [B,N,Hq,D]."""
    gradients = Inputs(*(torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in inputs))
    dq, dk, dv, dqg, dkg = gradients
    for start, stop in _blocks(inputs):
        block = _Block(inputs, start, stop)
        upstream = _fold(do[:, start:stop].double(), inputs.k.shape[2])
        keys = slice(0, block.keys)
        weight = block.softmax * block.gate
        dv[:, keys] += (weight.mT @ upstream).transpose(1, 2)
        weighted = weight.mul_(upstream @ block.v.mT)  # w dw, whose row sum is delta
        dt = (weighted * (1 - block.gate)).mul_(block.gate_scale)
        dqg[:, start:stop] = _unfold(dt @ block.kg, block.count)
        dkg[:, keys] += (dt.mT @ block.qg).transpose(1, 2)
        delta = weighted.sum(-1, keepdim=True)
        ds = weighted.sub_(block.softmax.mul_(delta)).mul_(block.softmax_scale)
        dq[:, start:stop] = _unfold(ds @ block.k, block.count)
        dk[:, keys] += (ds.mT @ block.q).transpose(1, 2)
    return gradients


def yardstick(inputs: Inputs, do: torch.Tensor | None = None) -> tuple[torch.Tensor, Inputs | None]:
    """o and, if `do` is given, the five gradients, by eager PyTorch in the inputs' dtype."""
    leaves = Inputs(*(x.detach().requires_grad_(do is not None) for x in inputs))
    kv_heads, count, keys = leaves.k.shape[2], leaves.q.shape[1], leaves.k.shape[1]
    q, qg = _fold(leaves.q, kv_heads), _fold(leaves.qg, kv_heads)
    k, v, kg = (x.transpose(1, 2) for x in (leaves.k, leaves.v, leaves.kg))
    hidden = _hidden(leaves.q.shape[2] // kv_heads, range(keys - count, keys), keys, q.device)
    mask = torch.zeros(hidden.shape, device=q.device).masked_fill_(hidden, -math.inf)
    scores = (q @ k.mT).float() / math.sqrt(q.shape[-1])
    gate = torch.sigmoid(((qg @ kg.mT).float() / math.sqrt(qg.shape[-1])).masked_fill(hidden, 0))
    o = _unfold((torch.softmax(scores + mask, -1) * gate).to(q.dtype) @ v, count)
    if do is None:
        return o, None
    return o.detach(), Inputs(*torch.autograd.grad(o, leaves, do))


def _largest(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values.isfinite(), values, 0).double().abs().max()


def _longest(rows: torch.Tensor) -> torch.Tensor:
    return rows.double().norm(dim=-1).max()


def forward_floor(inputs: Inputs) -> torch.Tensor:
    """The floor of o's error, a scalar."""
    return EPSILON[inputs.q.dtype] * _largest(inputs.v)


def gradient_floors(inputs: Inputs, do: torch.Tensor) -> Inputs:
    """The floors of the five gradients' errors, scalars; infinite elements of the inputs don't count."""
    epsilon = EPSILON[inputs.q.dtype]
    unit = epsilon * _longest(do) * _longest(inputs.v)
    softmax_unit, gate_unit = unit / math.sqrt(inputs.q.shape[-1]), unit / math.sqrt(inputs.qg.shape[-1])
    return Inputs(
        softmax_unit * _largest(inputs.k),
        softmax_unit * _largest(inputs.q),
        epsilon * _largest(do),
        gate_unit * _largest(inputs.kg),
        gate_unit * _largest(inputs.qg),
    )


def assert_accurate(
    name: str, ours: torch.Tensor, reference: torch.Tensor, yardstick: torch.Tensor, floor: float | torch.Tensor
) -> None:
    """The accuracy rule, wherever the float64 reference is finite.

    The largest absolute error is at most twice the yardstick's plus `floor`, the mean absolute error at most 1.5 times
    the yardstick's plus a tenth of `floor`, and every value is finite where the reference is. A yardstick that is not
    finite somewhere counts as infinitely wrong there.
    """
    assert ours.shape == reference.shape, f"{name}: shape {tuple(ours.shape)}, expected {tuple(reference.shape)}"
    if reference.numel() == 0:
        return
    judged = reference.isfinite()
    error = torch.where(judged, ours.double() - reference, 0).abs()
    allowed = torch.where(judged, yardstick.double() - reference, 0).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    count = judged.sum().clamp(min=1)
    floor = torch.as_tensor(floor, dtype=torch.float64, device=error.device)
    facts = (~error.isfinite()).sum(), error.max(), allowed.max(), error.sum() / count, allowed.sum() / count, floor
    bad, largest, largest_allowed, mean, mean_allowed, floor = torch.stack([fact.double() for fact in facts]).tolist()
    assert bad == 0, f"{name}: {bad:.0f} of {error.numel()} values are not finite where the reference is"
    assert largest <= 2 * largest_allowed + floor, (
        f"{name}: largest error {largest:.3e}, allowed {2 * largest_allowed + floor:.3e} "
        f"(2 x the yardstick's {largest_allowed:.3e} + floor {floor:.3e})"
    )
    assert mean <= 1.5 * mean_allowed + floor / 10, (
        f"{name}: mean error {mean:.3e}, allowed {1.5 * mean_allowed + floor / 10:.3e} "
        f"(1.5 x the yardstick's {mean_allowed:.3e} + a tenth of the floor {floor:.3e})"
    )


def check_forward(name: str, o: torch.Tensor, inputs: Inputs) -> None:
    """The accuracy rule for o alone."""
    assert_accurate(f"{name}: o", o, reference_forward(inputs), yardstick(inputs)[0], forward_floor(inputs))


def check_training(name: str, o: torch.Tensor, gradients: Inputs, inputs: Inputs, do: torch.Tensor) -> None:
    """The accuracy rule for o and each of the five gradients."""
    yard_o, yard_gradients = yardstick(inputs, do)
    assert_accurate(f"{name}: o", o, reference_forward(inputs), yard_o, forward_floor(inputs))
    right, floors = reference_backward(inputs, do), gradient_floors(inputs, do)
    for gradient, *values in zip(GRADIENT_NAMES, gradients, right, yard_gradients, floors):
        assert_accurate(f"{name}: {gradient}", *values)
