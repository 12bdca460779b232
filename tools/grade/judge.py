"""Holds what an engine returned against float64.

Walks a script beside a model of the cache: what each sequence holds, as arrays, a fork being a copy. Inputs are
computed anew, never read from memory that the engine could reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from tools.reference.accuracy import Verdict, floors, judge
from tools.reference.attention import EXACT, GRADIENTS, Inputs, backward, eager, forward
from tools.reference.bits import from_bits

from .arena import POISON
from .data import Source
from .script import OPERANDS, Script, Step


class Held(NamedTuple):
    """k, v, kg of a sequence, raw bits [tokens, Hkv, dim]."""

    k: np.ndarray
    v: np.ndarray
    kg: np.ndarray


class Model:
    """What each sequence holds."""

    def __init__(self, script: Script, source: Source) -> None:
        self.script, self.source = script, source
        self.held: dict[str, Held] = {}
        empty = script.shapes((0,))
        self._nothing = Held(*(source.xp.zeros(empty[name], np.uint16) for name in Held._fields))

    def apply(self, step: Step) -> list[tuple[str, Inputs]]:
        """Does what the step's call does; for each sequence of a prefill or decode, what its new tokens attend
        to (bits)."""
        call = step.call
        if call.fails:
            return []
        match call.call:
            case "create":
                self.held[call.name] = self._nothing
            case "fork":
                self.held[call.name] = self.held[call.of]
            case "release":
                del self.held[call.of]
            case "truncate":
                self.held[call.of] = Held(*(x[: call.length] for x in self.held[call.of]))
            case "prefill" | "decode":
                return list(self._append(step))
        return []

    def _append(self, step: Step) -> Iterator[tuple[str, Inputs]]:
        new = {name: self.script.values(step, name, self.source) for name in OPERANDS}
        start = 0
        for name, count in zip(step.call.sequences, step.call.counts):
            rows = slice(start, start + count)
            old = self.held[name]
            held = Held(*(self.source.xp.concatenate([a, new[o][rows]]) for a, o in zip(old, Held._fields)))
            self.held[name] = held
            yield name, Inputs(new["q"][rows], held.k, held.v, new["qg"][rows], held.kg)
            start += count


def judge_step(step: Step, outputs: Mapping[str, np.ndarray], model: Model) -> Iterator[Verdict | str]:
    """What the rule says of each result of a step, raw bits by name. A string says what is wrong beside the rule."""
    dtype = model.source.dtype
    attended = model.apply(step)
    if step.call.fails:
        if any(bool((bits != POISON).any()) for bits in outputs.values()):
            yield "a call that failed wrote to its output"
    elif attended:
        start = 0
        for name, bits in attended:
            count = len(bits.q)
            yield judge_rows(f"o of sequence {name}, {count} tokens", outputs["o"][start : start + count], bits, dtype)
            start += count
    elif step.outputs:
        yield from judge_batch("", outputs, *training_inputs(step, model), dtype)


def judge_rows(name: str, result: np.ndarray, inputs: Inputs, dtype: str) -> Verdict:
    """The rule for o of one sequence's queries; all raw bits."""
    x = Inputs(*(from_bits(each, dtype) for each in inputs))
    return judge(name, from_bits(result, dtype), forward(x, eager(dtype)), forward(x), floors(dtype, x)["o"])


def training_inputs(step: Step, model: Model) -> tuple[list[Inputs], list[np.ndarray | None]]:
    """Values of a training step's inputs and of its do [S,Hq,D] (None if it has none), by batch element."""
    source, script, first = model.source, model.script, step.forward or step
    shape = first.call.batch, first.call.length

    def values(at: Step, name: str) -> np.ndarray:
        bits = script.values(at, name, source)
        return from_bits(bits, source.dtype).reshape(*shape, *bits.shape[1:])

    batch = [Inputs(*row) for row in zip(*(values(first, name) for name in OPERANDS))]
    return batch, list(values(step, "do")) if "do" in step.inputs else [None] * len(batch)


def judge_batch(
    label: str, results: Mapping[str, np.ndarray], batch: list[Inputs], upstream: list, dtype: str
) -> Iterator[Verdict]:
    """The rule for o and gradients of a batch, raw bits [B,S,H,dim] by name; `label` follows a result's name."""
    whole = Inputs(*map(np.stack, zip(*batch)))
    floor = floors(dtype, whole, None if upstream[0] is None else np.stack(upstream))
    right, yardstick = {}, {}
    for found, arithmetic in ((right, EXACT), (yardstick, eager(dtype))):
        if "o" in results:
            found["o"] = np.stack([forward(x, arithmetic) for x in batch])
        if upstream[0] is not None:
            rows = zip(*(backward(x, do, arithmetic) for x, do in zip(batch, upstream)))
            found |= dict(zip(GRADIENTS, map(np.stack, rows)))
    for name, bits in results.items():
        yield judge(name + label, from_bits(bits, dtype), yardstick[name], right[name], floor[name])
