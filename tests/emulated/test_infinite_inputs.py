"""Infinite elements of qg, kg and k: times the zeros behind a sequence's end, or times a 0 of a hidden pair, they are
NaN, which reaches no result that float64 knows."""

from __future__ import annotations

import numpy as np
import pytest

from tools.demo.training import expected
from tools.reference.attention import EXACT, Inputs
from tools.reference.bits import from_bits

from .arrays import values_of
from .engines import DEVICES, DIMS, DTYPES, build, config
from .infinite import COLUMNS, make_gates_infinite, make_keys_infinite
from .serving import Cache, cut
from .training import check_training, random_batch, train

LENGTHS = (19, 64, 65, 150)
MULTIPLIED = {"qg": "dkg", "kg": "dqg", "k": "dq"}  # gradients that are sums of products with the infinities themselves
CASES = [
    (dims, length, name, DTYPES[(i + j // 2) % 2], (i + j) % len(DEVICES))
    for i, dims in enumerate(DIMS)
    for j, length in enumerate(LENGTHS)
    for name in MULTIPLIED
]
CALLS = (("prefill", (19, 64)), ("prefill", (45, 1)), ("decode", (1, 5)), ("decode", (8, 1)))


@pytest.mark.parametrize("dims, length, name, dtype, device", CASES)
def test_forward_and_gradients(rng, dims, length, name, dtype, device):
    settings = config(dims, dtype, group=3, kv_heads=1, modes=["training"], device=device)
    inputs, do = random_batch(rng, settings, 2, length)
    for row in map(Inputs._make, zip(*inputs)):
        if name == "k":
            make_keys_infinite(row, dtype)
        else:
            make_gates_infinite(row, name, dtype)
    for result, values in expected(values_of(inputs, dtype), from_bits(do, dtype), EXACT).items():
        assert np.isfinite(values[..., COLUMNS:] if result == MULTIPLIED[name] else values).all(), result
    with build(settings) as engine:
        check_training(settings, inputs, do, train(engine, inputs, do))


@pytest.mark.parametrize("name", ["qg", "kg"])
@pytest.mark.parametrize("dims", DIMS)
def test_prefill_and_decode(rng, dims, name):
    """Each call's infinities have columns of their own."""
    i, j = DIMS.index(dims), (name == "kg")
    settings = config(dims, DTYPES[(i + j) % 2], group=3, kv_heads=1, device=(i + j) % len(DEVICES))
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        sequences = [cache.create(), cache.create()]
        for call, (mode, lengths) in enumerate(CALLS):
            parts = dict(zip(sequences, cut(cache.tokens(sum(lengths)), lengths)))
            for part in parts.values():
                make_gates_infinite(part, name, settings["dtype"], call * COLUMNS)
            for output in getattr(cache, mode)(parts).values():
                assert np.isfinite(from_bits(output, settings["dtype"])).all()
