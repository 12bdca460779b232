"""Query heads that share a key/value head equal heads with copies of it, whose gradients are summed."""

from __future__ import annotations

import numpy as np
import pytest

from tools.demo.training import expected
from tools.reference.accuracy import floors, judge
from tools.reference.attention import EXACT, Inputs, eager
from tools.reference.bits import from_bits

from .arrays import values_of
from .engines import DEVICES, GROUPS, STRATA, build, config
from .training import random_batch, train

LENGTH = 70


def _summed(results: dict[str, np.ndarray], group: int) -> dict[str, np.ndarray]:
    """Gradients of copies [B,S,Hkv*G,dim] of k, v, kg added up to [B,S,Hkv,dim]; the rest as it is."""

    def add(x: np.ndarray) -> np.ndarray:
        return x.reshape(*x.shape[:2], -1, group, x.shape[3]).sum(axis=3)

    return {name: add(x) if name in ("dk", "dv", "dkg") else x for name, x in results.items()}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dims, dtype", STRATA)
def test_shared_heads_equal_their_copies(rng, dims, dtype, group):
    device = GROUPS.index(group) % len(DEVICES)
    settings = config(dims, dtype, group, device=device, modes=["training"])
    inputs, do = random_batch(rng, settings, 1, LENGTH)
    q, k, v, qg, kg = inputs
    copies = Inputs(q, *(x.repeat(group, axis=2) for x in (k, v)), qg, kg.repeat(group, axis=2))
    with build(settings) as engine:
        ours = train(engine, inputs, do)
    values, upstream = values_of(copies, dtype), from_bits(do, dtype)
    right, yardstick = (_summed(expected(values, upstream, a), group) for a in (EXACT, eager(dtype)))
    floor = floors(dtype, values, upstream)
    for name, result in ours.items():
        verdict = judge(name, from_bits(result, dtype), yardstick[name], right[name], floor[name])
        assert verdict.ok, str(verdict)
