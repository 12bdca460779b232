"""Forward and the five gradients against float64: each edge length with each stratum; groups and devices in turn."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from .engines import DEVICES, GROUPS, STRATA, build, config
from .training import check_training, random_batch, train

LENGTHS = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 257, 300)
LONG = 1025


def _cases() -> list:
    """Every length with every stratum. Group size and device turn, so that each of them meets each (D, R) and dtype."""
    cases = []
    for i, (dims, dtype) in enumerate(STRATA):
        for j, length in enumerate(LENGTHS):
            cases.append((length, dims, dtype, GROUPS[(i + j) % len(GROUPS)], (i // 2 + j) % len(DEVICES)))
        cases.append((LONG, dims, dtype, 1, i % len(DEVICES)))
    return cases


@pytest.mark.parametrize("length, dims, dtype, group, device", _cases())
def test_forward_and_gradients(rng, emulator, length, dims, dtype, group, device):
    kv_heads = 1 if group == 8 or length == LONG else 2
    settings = config(dims, dtype, group, kv_heads, modes=["training"], device=device)
    inputs, do = random_batch(rng, settings, 2 if length < 100 else 1, length)
    # Long ones give the checks nothing more to find than short ones of two tiles and a tail.
    with build(settings) as engine, nullcontext() if length < 100 else emulator.fast():
        check_training(settings, inputs, do, train(engine, inputs, do))


def test_every_group_and_device_meets_every_shape():
    cases = {(dims, dtype, group, device) for _, dims, dtype, group, device in _cases()}
    assert {(dims, group) for dims, _, group, _ in cases} == {(dims, g) for dims, _ in STRATA for g in GROUPS}
    assert {(dims, dtype, device) for dims, dtype, _, device in cases} == {
        (dims, dtype, device) for dims, dtype in STRATA for device in range(len(DEVICES))
    }
