"""Serving calls for the tests: packs tokens, poisons outputs, and judges them by what each sequence holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .engines import settings_of
from .reference import check_forward
from .tensors import DTYPES, Guarded, Inputs, assert_same_bits, generator, guarded_copy, random_inputs


def random_tokens(engine: Any, count: int, seed: int) -> Inputs:
    """`count` tokens [count,heads,dim] of standard normal values for an engine."""
    c = settings_of(engine)
    heads = c["q_heads"], c["kv_heads"], c["head_dim"], c["gate_dim"]
    return random_inputs((count,), *heads, DTYPES[c["dtype"]], generator(seed))


def rows(tokens: Inputs, start: int, stop: int) -> Inputs:
    """Tokens start ... stop - 1."""
    return Inputs(*(x[start:stop] for x in tokens))


def pack(parts: Sequence[Inputs]) -> Inputs:
    """The parts one after the other."""
    return Inputs(*(torch.cat(columns) for columns in zip(*parts)))


def cut(tokens: Inputs, lengths: Sequence[int]) -> list[Inputs]:
    """Consecutive parts of the given lengths, which sum to the number of tokens."""
    assert sum(lengths) == len(tokens.q)
    return [Inputs(*columns) for columns in zip(*(x.split(list(lengths)) for x in tokens))]


def call(engine: Any, mode: str, parts: Mapping[int, Inputs]) -> dict[int, torch.Tensor]:
    """One prefill or decode call: `parts` maps a sequence's id to its new tokens. Returns each sequence's o.

    Inputs and the output lie between guards of NaN and the output is full of it; inputs written, or a write outside the
    output, fails.
    """
    lengths = [len(part.q) for part in parts.values()]
    inputs = Inputs(*(guarded_copy(x) for x in pack(list(parts.values()))))
    before = [x.clone() for x in inputs]
    out = Guarded(tuple(inputs.q.shape), inputs.q.dtype)
    returned = getattr(engine, mode)(list(parts), *inputs, lengths, out=out.array)
    assert_same_bits(f"{mode}: what it returns, against out", returned, out.array)
    out.assert_guards_intact(mode)
    for name, ours, expected in zip(Inputs._fields, inputs, before):
        assert_same_bits(f"{mode}: input {name} after the call", ours, expected)
    return dict(zip(parts, out.array.split(lengths)))


class Cache:
    """An engine's sequences with what each of them holds. A context manager that ends with every page free.

    With check=True each sequence's output of each call is held to the accuracy rule.
    """

    def __init__(self, engine: Any, check: bool = True) -> None:
        self.engine, self.check = engine, check
        self.held: dict[int, Inputs] = {}
        self._nothing = random_tokens(engine, 0, 0)

    def __enter__(self) -> "Cache":
        assert self.engine.memory()["pages_used"] == 0, "a test before this one left pages in use"
        return self

    def __exit__(self, error: type | None, *_: object) -> None:
        for sequence in list(self.held):
            self.release(sequence)
        if error is None:
            memory = self.engine.memory()
            assert memory["pages_used"] == 0 and memory["pages_free"] == memory["pages_total"], memory

    def create(self) -> int:
        """An empty sequence."""
        sequence = self.engine.create()
        self.held[sequence] = self._nothing
        return sequence

    def fork(self, parent: int) -> int:
        """A sequence that holds what its parent holds."""
        sequence = self.engine.fork(parent)
        self.held[sequence] = self.held[parent]
        return sequence

    def truncate(self, sequence: int, length: int) -> None:
        """Keeps the oldest `length` tokens."""
        self.engine.truncate(sequence, length)
        self.held[sequence] = rows(self.held[sequence], 0, length)
        assert self.engine.length(sequence) == length

    def release(self, sequence: int) -> None:
        """Ends a sequence."""
        self.engine.release(sequence)
        del self.held[sequence]

    def prefill(self, parts: Mapping[int, Inputs]) -> dict[int, torch.Tensor]:
        """Appends each sequence's part in one call; returns each sequence's o."""
        return self._append("prefill", parts)

    def decode(self, parts: Mapping[int, Inputs]) -> dict[int, torch.Tensor]:
        """The same by a decode call."""
        return self._append("decode", parts)

    def sequence(self, *parts: Inputs) -> int:
        """A new sequence with these parts prefilled, one call each."""
        sequence = self.create()
        for part in parts:
            self.prefill({sequence: part})
        return sequence

    def _append(self, mode: str, parts: Mapping[int, Inputs]) -> dict[int, torch.Tensor]:
        outputs = call(self.engine, mode, parts)
        for sequence, part in parts.items():
            self.held[sequence] = held = pack([self.held[sequence], part])
            assert self.engine.length(sequence) == len(held.q)
            if self.check and len(part.q):
                batch = Inputs(part.q[None], held.k[None], held.v[None], part.qg[None], held.kg[None])
                name = f"{mode} of {len(part.q)} tokens after {len(held.q) - len(part.q)}"
                check_forward(name, outputs[sequence][None], batch)
        return outputs
