"""Serving calls for the tests: packs tokens, poisons outputs, and judges them by what each sequence holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tools.reference.accuracy import floors, judge
from tools.reference.attention import Inputs, eager, forward
from tools.reference.bits import from_bits

from .arrays import Guarded, assert_same_bits, guarded_copy, random_inputs, synchronize, values_of


def pack(parts: Sequence[Inputs]) -> Inputs:
    """The parts one after the other."""
    return Inputs(*(np.concatenate(columns) for columns in zip(*parts)))


def cut(tokens: Inputs, lengths: Sequence[int]) -> list[Inputs]:
    """Consecutive parts of the given lengths, which sum to the number of tokens."""
    assert sum(lengths) == len(tokens.q)
    ends = np.cumsum(lengths)
    return [Inputs(*(x[end - length : end] for x in tokens)) for length, end in zip(lengths, ends)]


def call(engine: Any, mode: str, parts: Mapping[int, Inputs], stream: int = 0) -> dict[int, np.ndarray]:
    """One prefill or decode call: `parts` maps a sequence's id to its new tokens. Returns each sequence's o.

    Inputs and the output lie between guards of NaN and the output is full of it; inputs written, or a write outside the
    output, fails.
    """
    lengths = [len(part.q) for part in parts.values()]
    inputs = Inputs(*(guarded_copy(x) for x in pack(list(parts.values()))))
    before = [x.copy() for x in inputs]
    out = Guarded(inputs.q.shape)
    assert getattr(engine, mode)(list(parts), *inputs, lengths, out=out.array, stream=stream) is out.array
    synchronize()
    out.assert_guards_intact(mode)
    for name, now, then in zip(Inputs._fields, inputs, before):
        assert_same_bits(f"{mode}: input {name} after the call", now, then)
    ends = np.cumsum(lengths)
    return {sequence: out.array[end - n : end] for sequence, n, end in zip(parts, lengths, ends)}


class Cache:
    """An engine's sequences with what each of them holds. A context manager that ends with every page free.

    settings: the engine's configuration. With check=True each sequence's output of each call is held to the accuracy
    rule. stream: of the calls.
    """

    def __init__(self, engine: Any, settings: dict, rng: np.random.Generator, check: bool = True) -> None:
        self.engine, self.settings, self.check, self.stream = engine, settings, check, 0
        self.held: dict[int, Inputs] = {}
        self._rng = rng

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, error: type | None, *_: object) -> None:
        for sequence in list(self.held):
            self.release(sequence)
        if error is None:
            memory = self.engine.memory()
            assert memory["pages_used"] == 0 and memory["pages_free"] == memory["pages_total"], memory

    def tokens(self, count: int) -> Inputs:
        """Fresh random tokens."""
        return random_inputs(self._rng, self.settings, count)

    def create(self) -> int:
        """An empty sequence."""
        sequence = self.engine.create()
        self.held[sequence] = self.tokens(0)
        return sequence

    def fork(self, parent: int) -> int:
        """A sequence that holds what its parent holds."""
        sequence = self.engine.fork(parent)
        self.held[sequence] = self.held[parent]
        return sequence

    def truncate(self, sequence: int, length: int) -> None:
        """Keeps the oldest `length` tokens."""
        self.engine.truncate(sequence, length)
        self.held[sequence] = Inputs(*(x[:length] for x in self.held[sequence]))
        assert self.engine.length(sequence) == length

    def release(self, sequence: int) -> None:
        """Ends a sequence."""
        self.engine.release(sequence)
        del self.held[sequence]

    def prefill(self, parts: Mapping[int, Inputs]) -> dict[int, np.ndarray]:
        """Appends each sequence's part in one call; returns each sequence's o as raw bits."""
        return self._append("prefill", parts)

    def decode(self, parts: Mapping[int, Inputs]) -> dict[int, np.ndarray]:
        """The same by a decode call."""
        return self._append("decode", parts)

    def sequence(self, *parts: Inputs) -> int:
        """A new sequence with these parts prefilled, one call each."""
        sequence = self.create()
        for part in parts:
            self.prefill({sequence: part})
        return sequence

    def _append(self, mode: str, parts: Mapping[int, Inputs]) -> dict[int, np.ndarray]:
        outputs = call(self.engine, mode, parts, self.stream)
        for sequence, part in parts.items():
            self.held[sequence] = held = pack([self.held[sequence], part])
            assert self.engine.length(sequence) == len(held.q)
            if self.check:
                self._judge(f"{mode} of {len(part.q)} tokens, {len(held.q)} in all", part, held, outputs[sequence])
        return outputs

    def _judge(self, name: str, part: Inputs, held: Inputs, output: np.ndarray) -> None:
        dtype = self.settings["dtype"]
        row = values_of(Inputs(part.q, held.k, held.v, part.qg, held.kg), dtype)
        result, floor = from_bits(output, dtype), floors(dtype, row)["o"]
        verdict = judge(name, result, forward(row, eager(dtype)), forward(row), floor)
        assert verdict.ok, str(verdict)
