"""A call of the engine on fixed torch data: what it reads, what it writes, and what it must write.

Data is standard normal, from one seed. Outputs are the workload's own, so that engines can take turns on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tools.reference.attention import Inputs

from .check import Expected, expected_gradients, expected_output
from .sweep import Case


class Training:
    """forward or backward on [B,S,heads,dim]. step: which. dims: (head_dim, gate_dim)."""

    def __init__(self, step: str, case: Case, dims: tuple[int, int]) -> None:
        shape = case.shape
        self._step, self._dtype = step, case.dtype
        self._inputs, self._do = _random_arrays(case, dims, (shape.batch, shape.length), seed=0)
        self._o = torch.empty_like(self._inputs.q)
        self._gradients = tuple(torch.empty_like(x) for x in self._inputs)

    @property
    def outputs(self) -> tuple[torch.Tensor, ...]:
        """The arrays that a call writes."""
        return (self._o,) if self._step == "forward" else self._gradients

    def attach(self, engine: Any) -> Callable[[], object]:
        """The call, for an engine."""
        if self._step == "forward":
            return lambda: engine.forward(*self._inputs, out=self._o)
        _, saved = engine.forward(*self._inputs)
        return lambda: engine.backward(saved, self._do, out=self._gradients)

    def detach(self, engine: Any) -> None:
        """Nothing is left in an engine."""

    def results(self) -> list[list[np.ndarray]]:
        """What the last call wrote, by sequence."""
        return [[_host(x[b]) for x in self.outputs] for b in range(len(self._o))]

    def expected(self) -> list[list[Expected]]:
        """What every call must write, by sequence."""
        sequences = [(Inputs(*(_host(x[b]) for x in self._inputs)), _host(self._do[b])) for b in range(len(self._o))]
        if self._step == "forward":
            return [expected_output(x, self._dtype) for x, _ in sequences]
        return [expected_gradients(x, do, self._dtype) for x, do in sequences]


class Serving:
    """prefill or decode of `length` tokens on top of `cached` ones, packed [T,heads,dim]. step: which."""

    def __init__(self, step: str, case: Case, dims: tuple[int, int]) -> None:
        self._step, self._dtype, self._shape = step, case.dtype, case.shape
        self._old, _ = _random_arrays(case, dims, (self._shape.batch * self._shape.cached,), seed=0)
        self._new, _ = _random_arrays(case, dims, (self._shape.batch * self._shape.length,), seed=1)
        self._o = torch.empty_like(self._new.q)
        self._ids: dict[Any, list[int]] = {}

    @property
    def outputs(self) -> tuple[torch.Tensor, ...]:
        """The array that a call writes."""
        return (self._o,)

    def attach(self, engine: Any) -> Callable[[], object]:
        """The call, for an engine whose cache is filled here. Every call starts from the same cache."""
        batch, cached = self._shape.batch, self._shape.cached
        ids = self._ids[engine] = [engine.create() for _ in range(batch)]
        if cached:
            engine.prefill(ids, *self._old, [cached] * batch)
        step, lengths = getattr(engine, self._step), [self._shape.length] * batch

        def call() -> None:
            for sequence in ids:
                engine.truncate(sequence, cached)
            step(ids, *self._new, lengths, out=self._o)

        return call

    def detach(self, engine: Any) -> None:
        """Takes the sequences out of an engine again."""
        for sequence in self._ids.pop(engine):
            engine.release(sequence)

    def results(self) -> list[list[np.ndarray]]:
        """What the last call wrote, by sequence."""
        return [[_host(o)] for o in self._o.unflatten(0, (self._shape.batch, -1))]

    def expected(self) -> list[list[Expected]]:
        """What every call must write, by sequence."""
        return [expected_output(self._sequence(b), self._dtype) for b in range(self._shape.batch)]

    def _sequence(self, b: int) -> Inputs:
        old, new = (
            Inputs(*(_host(x[b * tokens : (b + 1) * tokens]) for x in inputs))
            for inputs, tokens in ((self._old, self._shape.cached), (self._new, self._shape.length))
        )
        k, v, kg = (np.concatenate((getattr(old, name), getattr(new, name))) for name in ("k", "v", "kg"))
        return Inputs(new.q, k, v, new.qg, kg)


def make_workload(step: str, case: Case, dims: tuple[int, int]) -> Training | Serving:
    """The workload of a step, forward, backward, prefill or decode, on a case."""
    return (Training if step in ("forward", "backward") else Serving)(step, case, dims)


def _random_arrays(case: Case, dims: tuple[int, int], rows: tuple[int, ...], seed: int) -> tuple[Inputs, torch.Tensor]:
    """Inputs, and a gradient of o; rows: the axes before the heads."""
    source = torch.Generator("cuda").manual_seed(seed)
    (d, r), q, kv = dims, case.shape.q_heads, case.shape.kv_heads
    *inputs, do = (
        torch.randn((*rows, *axes), generator=source, device="cuda").to(getattr(torch, case.dtype))
        for axes in ((q, d), (kv, d), (kv, d), (q, r), (kv, r), (q, d))
    )
    return Inputs(*inputs), do


def _host(x: torch.Tensor) -> np.ndarray:
    return x.float().cpu().numpy()
