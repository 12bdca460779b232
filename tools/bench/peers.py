"""Peers that aren't engines: cuDNN without a gate, eager PyTorch, and a plain read of the same bytes.

Each raises `NotThere` with the reason where it can't do a shape.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from .contenders import Arrays, ServingData, TrainingData
from .shapes import Serving, Training

# Eager code holds about so many bytes a (query head, key) pair, masked ones too, and may fill that part of the memory.
EAGER_BYTES, EAGER_PART = 32, 0.25
READ_BLOCK, READ_STEPS = 4096, 4  # int32 of a load, loads of a program


class NotThere(RuntimeError):
    """This peer can't do this shape, and why."""


class Cudnn:
    """Causal attention without the gate, by torch's cuDNN backend, on the same q, k, v and do.

    Its FLOPs are its own: 4D a pair forward, 10D backward. It has no mask aligned to the bottom right, so that it takes
    prompts without a prefix only, a call each.
    """

    def __init__(self, data: TrainingData | ServingData, shape: Training | Serving) -> None:
        self.shape = shape
        if isinstance(shape, Training):
            batches = [data.inputs]
        elif shape.operation == "prefill" and shape.prefix == 0 and not any(shape.cached) and len(shape.calls) == 1:
            batches = [tuple(x[None] for x in part) for part in _parts(data.calls[0], shape.calls[0])]
        else:
            raise NotThere("torch's cuDNN attention has no causal mask for queries that follow a cache")
        self._heads_first = [tuple(x.transpose(1, 2) for x in batch[:3]) for batch in batches]
        if "backward" in shape.operations:
            self._do = data.do.transpose(1, 2)
            self._leaves = [x.detach().requires_grad_() for x in self._heads_first[0]]
            self._o = self._attend(*self._leaves)

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def forward(self) -> None:
        with torch.no_grad():
            for batch in self._heads_first:
                self._attend(*batch)

    prefill = forward

    def backward(self) -> None:
        torch.autograd.grad(self._o, self._leaves, self._do, retain_graph=True)

    def flops(self, operation: str) -> int:
        """Its own work."""
        return (10 if operation == "backward" else 4) * self.shape.heads.head_dim * self.shape.pairs


def eager_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, qg: torch.Tensor, kg: torch.Tensor):
    """The operation, [B,N,Hq,dim] over [B,L,Hkv,dim], as the formula reads."""
    group, hidden_from = q.shape[2] // k.shape[2], k.shape[1] - q.shape[1] + 1
    k, v, kg = (x.repeat_interleave(group, 2) for x in (k, v, kg))
    q, k, v, qg, kg = (x.transpose(1, 2) for x in (q, k, v, qg, kg))
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(hidden_from)
    s = (q @ k.mT).float() * q.shape[-1] ** -0.5
    g = torch.sigmoid((qg @ kg.mT).float() * qg.shape[-1] ** -0.5)
    p = torch.softmax(s.masked_fill(hidden, float("-inf")), -1)
    return ((p * g).to(q.dtype) @ v).transpose(1, 2)


class Eager:
    """The operation in plain PyTorch; of serving shapes a sequence after the other, over dense copies of the cache."""

    def __init__(self, data: TrainingData | ServingData, shape: Training | Serving) -> None:
        self.shape = shape
        if isinstance(shape, Training):
            _require_memory(shape.batch * shape.heads.q_heads * shape.length**2)
            self._batches = [data.inputs]
            self._leaves = [x.detach().requires_grad_() for x in data.inputs]
            self._o, self._do = None, data.do
            return
        longest = max(max(new) for new in shape.calls)
        _require_memory(shape.heads.q_heads * longest * shape.longest)
        self._batches = list(_sequences(data, shape))

    def forward(self) -> None:
        with torch.no_grad():
            for batch in self._batches:
                eager_attention(*batch)

    prefill = decode = forward

    def backward(self) -> None:
        if self._o is None:
            self._o = eager_attention(*self._leaves)
        torch.autograd.grad(self._o, self._leaves, self._do, retain_graph=True)


def _require_memory(pairs: int) -> None:
    needed, there = EAGER_BYTES * pairs, EAGER_PART * torch.cuda.get_device_properties(0).total_memory
    if needed > there:
        raise NotThere(f"its matrices would take about {needed / 1e9:.0f} GB, more than {there / 1e9:.0f}")


def _parts(tokens: Arrays, lengths: tuple[int, ...]) -> list[Arrays]:
    """Packed tokens by sequence."""
    return list(zip(*(x.split(list(lengths)) for x in tokens)))


def _sequences(data: ServingData, shape: Serving):
    """Of each call and sequence, the new queries [1,N,Hq,dim] and all keys [1,L,Hkv,dim]."""
    new = [_parts(tokens, lengths) for tokens, lengths in zip(data.calls, shape.calls)]
    for i, cached in enumerate(data.cached):
        held = [torch.cat(pieces) for pieces in zip(data.prefix, cached, *(call[i] for call in new))]
        end = shape.prefix + shape.cached[i]
        for call in new:
            q, _, _, qg, _ = call[i]
            end += len(q)
            k, v, kg = (held[j][None, :end] for j in (1, 2, 4))
            yield q[None], k, v, qg[None], kg


@triton.jit
def read_kernel(X, OUT, size, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * (BLOCK * STEPS)
    total = tl.zeros((BLOCK,), tl.int32)
    for step in tl.static_range(STEPS):
        at = first + step * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(X + at, mask=at < size, other=0)
    tl.store(OUT + tl.program_id(0), tl.sum(total, 0))  # so that no load is left out


class PlainRead:
    """Reads so many bytes and does nothing else."""

    def __init__(self, count: int) -> None:
        self._size = count // 4
        self._data = torch.zeros(self._size, dtype=torch.int32, device="cuda")
        self._programs = triton.cdiv(self._size, READ_BLOCK * READ_STEPS)
        self._sums = torch.empty(self._programs, dtype=torch.int32, device="cuda")

    def read(self) -> None:
        read_kernel[(self._programs,)](self._data, self._sums, self._size, READ_BLOCK, READ_STEPS, num_warps=8)

    decode = read
