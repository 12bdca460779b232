"""A token's bits don't depend on how its prompt was cut, on how many tokens a step appends, or on its neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from .arrays import assert_same_bits
from .engines import DEVICES, DIMS, STRATA, build, config
from .serving import Cache, cut, pack

CHUNKS = ((200,), (1, 199), (199, 1), (64, 64, 64, 8), (17, 0, 47, 130, 6), (7,) * 20 + (60,))
STEPS = ((8, 8, 8), (1,) * 24, (3, 5, 8, 7, 1))  # ways to append 24 tokens by decode


@pytest.mark.parametrize("device", range(len(DEVICES)))
@pytest.mark.parametrize("dims, dtype", STRATA)
def test_cuts_of_a_prompt(rng, dims, dtype, device):
    settings = config(dims, dtype, group=3, kv_heads=1, device=device)
    with build(settings) as engine, Cache(engine, settings, rng, check=False) as cache:
        tokens, tail = cache.tokens(200), cache.tokens(5)
        expected = None
        for chunks in CHUNKS:
            sequence = cache.create()
            outputs = [cache.prefill({sequence: part})[sequence] for part in cut(tokens, chunks)]
            outputs.append(cache.decode({sequence: tail})[sequence])
            expected = np.concatenate(outputs) if expected is None else expected
            assert_same_bits(f"chunks {chunks}", np.concatenate(outputs), expected)


@pytest.mark.parametrize("cached", [0, 60, 505])
@pytest.mark.parametrize("dims, dtype", STRATA)
def test_decode_at_once_or_one_by_one(rng, dims, dtype, cached):
    settings = config(dims, dtype, group=3, kv_heads=1, device=STRATA.index((dims, dtype)) % len(DEVICES))
    with build(settings) as engine, Cache(engine, settings, rng, check=False) as cache:
        parent, tokens = cache.sequence(cache.tokens(cached)), cache.tokens(24)
        expected = None
        for steps in STEPS:
            sequence = cache.fork(parent)
            cache.check = expected is None
            outputs = np.concatenate([cache.decode({sequence: part})[sequence] for part in cut(tokens, steps)])
            expected = outputs if expected is None else expected
            assert_same_bits(f"steps {steps}", outputs, expected)


@pytest.mark.parametrize("dims, dtype", STRATA)
def test_batch_invariant_prefill_equals_decode(rng, dims, dtype):
    """With batch_invariant a token has the same bits whether it came by prefill or by decode."""
    device = STRATA.index((dims, dtype)) % len(DEVICES)
    settings = config(dims, dtype, group=3, kv_heads=1, device=device, batch_invariant=True)
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        for cached in (0, 60, 130):
            prompt, tokens = cache.tokens(cached), cache.tokens(16)
            whole = cache.create()
            expected = cache.prefill({whole: pack([prompt, tokens])})[whole]
            for step in (1, 8):
                sequence = cache.sequence(prompt)
                parts = cut(tokens, (step,) * (16 // step))
                outputs = np.concatenate([cache.decode({sequence: part})[sequence] for part in parts])
                assert_same_bits(f"{step} a step after {cached}", outputs, expected[cached:])


@pytest.mark.parametrize("mode", ["prefill", "decode"])
@pytest.mark.parametrize("dims", DIMS)
def test_neighbours(rng, dims, mode):
    """Alone, in another order, among others."""
    settings = config(dims, group=3, kv_heads=1)
    lengths = (1, 8, 3, 5) if mode == "decode" else (129, 1, 64, 17)
    with build(settings) as engine, Cache(engine, settings, rng, check=False) as cache:
        parents = [cache.sequence(cache.tokens(count)) for count in (0, 63, 64, 300)]
        parts = [cache.tokens(length) for length in lengths]

        def run(chosen):
            forks = {i: cache.fork(parents[i]) for i in chosen}
            outputs = getattr(cache, mode)({forks[i]: parts[i] for i in chosen})
            for fork in forks.values():
                cache.release(fork)
            return {i: outputs[forks[i]] for i in chosen}

        together = run((0, 1, 2, 3))
        for chosen in ((0,), (1,), (2,), (3,), (3, 2, 1, 0), (3, 0)):
            for i, output in run(chosen).items():
                assert_same_bits(f"sequence {i} among {chosen}", output, together[i])
