"""The training half of the demo: forward and backward of a small batch, twice."""

from __future__ import annotations

import numpy as np

from .accuracy import Verdict, floors, judge
from .attention import backward, exact, forward, from_bits, rounding_to, to_bits
from .device_memory import Device

GRADIENTS = ("dq", "dk", "dv", "dqg", "dkg")


def expected(inputs: list[np.ndarray], dtype) -> dict[str, np.ndarray]:
    """o and the gradients of a batch: the reference for `dtype` None, else what eager code in that dtype gives."""
    rounding = exact if dtype is None else rounding_to(dtype)
    rows = []
    for row in zip(*inputs):
        o, weights = forward(*row[:5], rounding)
        rows.append((o, *backward(*row, weights, rounding)))
    return dict(zip(("o", *GRADIENTS), map(np.stack, zip(*rows))))


def train(engine, config: dict, device: Device, shape: tuple[int, int], rng) -> tuple[list[Verdict], bool]:
    """Runs forward and backward of an engine built from `config` on random inputs of shape (batch, length).

    rng: numpy's Generator. Returns one verdict a result, and whether a second run gave the same bytes.
    """
    dtype, d, r = config["dtype"], config["head_dim"], config["gate_dim"]
    query, key = (*shape, config["q_heads"]), (*shape, config["kv_heads"])
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
    verdicts = [
        judge(name, from_bits(result, dtype), eager[name], reference[name], floor[name])
        for name, result in zip(("o", *GRADIENTS), first)
    ]
    return verdicts, all(np.array_equal(a, b) for a, b in zip(first, second))
