"""Data for a shape, and an engine's calls on it. Any engine of the contract will do: ours, and the Triton one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from .shapes import Heads, Serving, Training

Arrays = tuple[torch.Tensor, ...]


def random_arrays(heads: Heads, rows: tuple[int, ...], source: torch.Generator) -> Arrays:
    """Standard normal q, k, v, qg, kg in bfloat16, [*rows, heads, dim]."""
    q, kv, d, r = heads.q_heads, heads.kv_heads, heads.head_dim, heads.gate_dim
    sizes = (q, d), (kv, d), (kv, d), (q, r), (kv, r)
    return tuple(torch.randn((*rows, *size), generator=source, device="cuda", dtype=torch.bfloat16) for size in sizes)


def config(shape: Training | Serving) -> dict:
    """The configuration of an engine for a shape."""
    heads = asdict(shape.heads)
    if isinstance(shape, Training):
        return {**heads, "modes": ["training"]}
    modes = ["prefill", "decode"] if shape.operation == "decode" else ["prefill"]
    capacity = {"max_sequences": len(shape.cached) + 1, "max_seq_len": shape.longest}
    return {**heads, "modes": modes, **capacity, "max_cached_tokens": shape.unique_tokens}


class TrainingData:
    """q, k, v, qg, kg and do of a batch, [B,S,heads,dim]."""

    def __init__(self, shape: Training) -> None:
        source = torch.Generator("cuda").manual_seed(0)
        self.inputs = random_arrays(shape.heads, (shape.batch, shape.length), source)
        self.do = torch.randn(self.inputs[0].shape, generator=source, device="cuda", dtype=torch.bfloat16)


class ServingData:
    """Tokens of a serving shape, [T,heads,dim]: the prefix, each sequence's cached ones, each call's packed ones."""

    def __init__(self, shape: Serving) -> None:
        source = torch.Generator("cuda").manual_seed(0)
        self.prefix = random_arrays(shape.heads, (shape.prefix,), source)
        self.cached = [random_arrays(shape.heads, (count,), source) for count in shape.cached]
        self.calls = [random_arrays(shape.heads, (sum(new),), source) for new in shape.calls]


class TrainingCalls:
    """forward and backward into fixed arrays."""

    def __init__(self, engine: Any, data: TrainingData) -> None:
        self.engine, self.data = engine, data
        self.o = torch.empty_like(data.do)
        self.gradients = tuple(torch.empty_like(x) for x in data.inputs)
        self._saved: Any = None

    def forward(self) -> None:
        _, self._saved = self.engine.forward(*self.data.inputs, out=self.o)

    def backward(self) -> None:
        """After forward."""
        self.engine.backward(self._saved, self.data.do, out=self.gradients)

    def results(self, operation: str) -> Arrays:
        """What an operation wrote."""
        return (self.o,) if operation == "forward" else self.gradients


class ServingCalls:
    """The calls of a shape on a cache that is as before when they have returned."""

    def __init__(self, engine: Any, data: ServingData, shape: Serving) -> None:
        self.engine, self.data, self.shape = engine, data, shape
        self._call = getattr(engine, shape.operation)
        self._lengths = [list(new) for new in shape.calls]
        self._outputs = tuple(torch.empty_like(call[0]) for call in data.calls)
        root = engine.create()
        if shape.prefix:
            engine.prefill([root], *data.prefix, [shape.prefix])
        self._ids = [engine.fork(root) for _ in shape.cached]
        engine.release(root)
        for sequence, tokens, count in zip(self._ids, data.cached, shape.cached):
            if count:
                engine.prefill([sequence], *tokens, [count])

    def advance(self) -> None:
        """The calls alone; reset must follow."""
        for tokens, lengths, out in zip(self.data.calls, self._lengths, self._outputs):
            self._call(self._ids, *tokens, lengths, out=out)

    def reset(self) -> None:
        """Takes the new tokens away."""
        for sequence, count in zip(self._ids, self.shape.cached):
            self.engine.truncate(sequence, self.shape.prefix + count)

    def prefill(self) -> None:
        """The calls, and the cache as it was; decode is the same."""
        self.advance()
        self.reset()

    decode = prefill

    def results(self, operation: str) -> Arrays:
        """o of each call."""
        return self._outputs


def make_data(shape: Training | Serving) -> TrainingData | ServingData:
    """The same values in every run."""
    return TrainingData(shape) if isinstance(shape, Training) else ServingData(shape)


def make_calls(engine: Any, data: Any, shape: Training | Serving) -> TrainingCalls | ServingCalls:
    """An engine's calls on what make_data made; each operation is a method of that name."""
    return TrainingCalls(engine, data) if isinstance(shape, Training) else ServingCalls(engine, data, shape)
