"""More heads in a batch than 65,535, the most blocks that two of a grid's three axes take."""

from __future__ import annotations

import numpy as np

from tools.reference.bits import from_bits

from .arrays import Guarded, synchronize, values_of
from .engines import build, config
from .training import random_batch

BATCH, GROUP, KV_HEADS = 4100, 8, 2
BLOCKS = BATCH * GROUP * KV_HEADS
SETTINGS = config((64, 32), group=GROUP, kv_heads=KV_HEADS, modes=["training"])


def test_forward(rng, emulator):
    """Of one token each, so that o = sigmoid(t) v; without the emulator's checks, for speed."""
    inputs, _ = random_batch(rng, SETTINGS, BATCH, 1)
    output = Guarded(inputs.q.shape)
    with build(SETTINGS) as engine, emulator.fast():
        engine.forward(*inputs, out=output.array)
        synchronize()
    (launch,) = emulator.launches()
    assert launch.grid == (BLOCKS, 1, 1)
    output.assert_guards_intact("o")
    values = values_of(inputs, SETTINGS["dtype"])
    v, kg = (x.repeat(GROUP, axis=2).astype(np.float64) for x in (values.v, values.kg))
    t = (values.qg * kg).sum(-1, keepdims=True) / np.sqrt(SETTINGS["gate_dim"])
    # Weight and output are rounded to bfloat16; the gate itself, half of 1 + tanh, is within 2^-12.
    error = np.abs(from_bits(output.array, SETTINGS["dtype"]) - v / (1 + np.exp(-t)))
    assert (error <= 2**-7 * np.abs(v) / (1 + np.exp(-t)) + 2**-12 * np.abs(v)).all()


def test_grids_of_backward(rng, emulator):
    """Nothing runs: the grids of forward, dq, and dk and dv, which has a block for each key/value head."""
    inputs, do = random_batch(rng, SETTINGS, BATCH, 1)
    out, gradients = np.empty_like(inputs.q), tuple(map(np.empty_like, inputs))
    with build(SETTINGS) as engine, emulator.not_executing():
        _, saved = engine.forward(*inputs, out=out)
        engine.backward(saved, do, out=gradients)
        synchronize()
    grids = {launch.operation: launch.grid for launch in emulator.launches()}
    assert grids == {"fwd": (BLOCKS, 1, 1), "bwd_dq": (BLOCKS, 1, 1), "bwd_dkv": (BLOCKS // GROUP, 1, 1)}
