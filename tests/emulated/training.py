"""Training calls for the tests: outputs poisoned between guards, results judged against float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.demo.training import expected
from tools.reference.accuracy import floors, judge
from tools.reference.attention import EXACT, GRADIENTS, Inputs, eager
from tools.reference.bits import from_bits

from .arrays import Guarded, assert_same_bits, random_bits, random_inputs, synchronize, values_of

RESULTS = ("o", *GRADIENTS)


def random_batch(rng: np.random.Generator, settings: dict, batch: int, length: int) -> tuple[Inputs, np.ndarray]:
    """Inputs [B,S,heads,dim] for an engine and do [B,S,Hq,D], raw bits of standard normal values."""
    inputs = random_inputs(rng, settings, batch, length)
    return inputs, random_bits(rng, inputs.q.shape, settings["dtype"])


def train(engine: Any, inputs: Inputs, do: np.ndarray, stream: int = 0) -> dict[str, np.ndarray]:
    """o and the five gradients of a batch, as raw bits, by RESULTS; checks that nothing else was written."""
    before = [x.copy() for x in (*inputs, do)]
    outputs = {name: Guarded(x.shape) for name, x in zip(RESULTS, (inputs.q, *inputs))}
    o, *gradients = (output.array for output in outputs.values())
    returned, saved = engine.forward(*inputs, out=o, stream=stream)
    assert returned is o
    engine.backward(saved, do, out=tuple(gradients), stream=stream)
    synchronize()
    for name, output in outputs.items():
        output.assert_guards_intact(name)
    for name, now, then in zip((*Inputs._fields, "do"), (*inputs, do), before):
        assert_same_bits(f"input {name} after the calls", now, then)
    return {name: output.array for name, output in outputs.items()}


def check_training(settings: dict, inputs: Inputs, do: np.ndarray, results: dict[str, np.ndarray]) -> None:
    """Holds results of `train`, or some of them, to the accuracy rule."""
    dtype = settings["dtype"]
    values, upstream = values_of(inputs, dtype), from_bits(do, dtype)
    right, yardstick = expected(values, upstream, EXACT), expected(values, upstream, eager(dtype))
    floor = floors(dtype, values, upstream)
    verdicts = [judge(n, from_bits(x, dtype), yardstick[n], right[n], floor[n]) for n, x in results.items()]
    wrong = [str(verdict) for verdict in verdicts if not verdict.ok]
    assert not wrong, "\n".join(wrong)
