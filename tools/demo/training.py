"""The training half of the demo: forward and backward of a small batch, twice."""

from __future__ import annotations

import numpy as np

from tools.reference.accuracy import Verdict, floors, judge
from tools.reference.attention import EXACT, GRADIENTS, Arithmetic, Inputs, backward, eager, forward
from tools.reference.bits import from_bits, to_bits

from .device_memory import Device


def expected(batch: Inputs, do: np.ndarray, arithmetic: Arithmetic) -> dict[str, np.ndarray]:
    """o and the gradients of a batch [B,S,H,dim]."""
    rows = [(forward(x, arithmetic), *backward(x, d, arithmetic)) for x, d in zip(map(Inputs._make, zip(*batch)), do)]
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
    *batch, do = (from_bits(each, dtype) for each in bits)
    batch = Inputs(*batch)
    reference, yardstick = expected(batch, do, EXACT), expected(batch, do, eager(dtype))
    floor = floors(dtype, batch, do)
    verdicts = [
        judge(name, from_bits(result, dtype), yardstick[name], reference[name], floor[name])
        for name, result in zip(("o", *GRADIENTS), first)
    ]
    return verdicts, all(np.array_equal(a, b) for a, b in zip(first, second))
