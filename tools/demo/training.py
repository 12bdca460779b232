"""The training half of the demo: forward and backward of a small batch, twice."""

from __future__ import annotations

import numpy as np

from .accuracy import Verdict, floors, judge
from .attention import backward, exact, forward, from_bits, rounding_to, to_bits
from .device_memory import Device

GRADIENTS = ("dq", "dk", "dv", "dqg", "dkg")


def expected(inputs: list[np.ndarray], dtype) -> dict[str, np.ndarray]:
    """o and the gradients of a batch, in the inputs' own precision; `dtype` None for the reference, or the eager dtype."""
    rounding = exact if dtype is None else rounding_to(dtype)
    rows = []
    for row in zip(*inputs):
        o, weights = forward(*row[:5], rounding)
        rows.append((o, *backward(*row, weights, rounding)))
    return dict(zip(("o", *GRADIENTS), map(np.stack, zip(*rows))))


def train(engine, device: Device, dtype: str, shape: tuple[int, int], rng: np.random.Generator) -> tuple[list[Verdict], bool]:
    """Runs forward and backward on random inputs of shape (batch, length).

    Returns one verdict a result, and whether a second run gave the same bytes.
    """
    config = engine.config
    query = (*shape, config["q_heads"])
    key = (*shape, config["kv_heads"])
    d, r = config["head_dim"], config["gate_dim"]
    shapes = [(*query, d), (*key, d), (*key, d), (*query, r), (*key, r), (*query, d)]
    bits = [to_bits(rng.standard_normal(each), dtype) for each in shapes]
    arrays = [device.upload(each) for each in bits]

    def run() -> list[np.ndarray]:
        o = device.empty(shapes[0])
        gradients = tuple(device.empty(each) for each in shapes[:5])
        _, saved = engine.forward(*arrays[:5], out=o)
        engine.backward(saved, arrays[5], out=gradients)
        return [each.numpy() for each in (o, *gradients)]

    first, second = run(), run()
    values = [from_bits(each, dtype) for each in bits]
    wide = [each.astype(np.float64) for each in values]
    reference, eager = expected(wide, None), expected(values, dtype)
    floor = floors(dtype, *wide)
    verdicts = [judge(name, from_bits(result, dtype), eager[name], reference[name], floor[name])
                for name, result in zip(("o", *GRADIENTS), first)]  # fmt: skip
    return verdicts, all(np.array_equal(a, b) for a, b in zip(first, second))
