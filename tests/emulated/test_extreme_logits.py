"""Values that break a careless softmax: logits of 1e11, rows far below any mask sentinel, NaN beside finite ones."""

from __future__ import annotations

import numpy as np
import pytest

from tools.demo.training import expected
from tools.reference.attention import EXACT, GRADIENTS
from tools.reference.bits import from_bits, to_bits

from .arrays import assert_same_bits, values_of
from .engines import DIMS, DTYPES, build, config
from .serving import Cache
from .training import check_training, random_batch, train

BFLOAT16 = "bfloat16"
HUGE = 133_120.0  # beyond float16, exact in bfloat16
POISONS = {"nan": np.nan, "inf": np.inf}


@pytest.mark.parametrize("length", [1, 128])
@pytest.mark.parametrize("dims", DIMS)
def test_logits_of_1e11(rng, dims, length):
    """q = k = v = 133,120: o = sigmoid(t) v for one token, and finite wherever float64 is."""
    settings = config(dims, group=3)
    # One token has few gates, too few for a mean error to mean anything.
    inputs, do = random_batch(rng, settings, 64 if length == 1 else 1, length)
    for large in inputs[:3]:
        large[...] = to_bits(np.float32(HUGE), BFLOAT16)
    with build(settings) as engine:
        results = train(engine, inputs, do)
    check_training(settings, inputs, do, results)
    if length == 1:
        values = values_of(inputs, BFLOAT16)
        t = (values.qg.astype(np.float64) * values.kg.repeat(3, axis=2)).sum(-1, keepdims=True) / np.sqrt(dims[1])
        right = np.broadcast_to(HUGE / (1 + np.exp(-t)), results["o"].shape)
        # Weight and output are rounded to bfloat16; the gate itself, half of 1 + tanh, is within 2^-12.
        np.testing.assert_allclose(from_bits(results["o"], BFLOAT16), right, rtol=2**-7, atol=HUGE * 2**-12)


@pytest.mark.parametrize("dims", DIMS)
def test_logits_of_1e11_in_a_cache(rng, dims):
    settings = config(dims, group=3)
    with build(settings) as engine, Cache(engine, settings, rng) as cache:

        def tokens(count):
            made = cache.tokens(count)
            for large in made[:3]:
                large[...] = to_bits(np.float32(HUGE), BFLOAT16)
            return made

        sequence = cache.sequence(tokens(1), tokens(70))
        cache.decode({sequence: tokens(3)})


@pytest.mark.parametrize("dims", DIMS)
def test_logits_near_minus_1e5(rng, dims):
    """Every logit near -1e5, in every seventh row the largest one -3e4: a right softmax, no mask value in it."""
    settings = config(dims, group=3)
    inputs, do = random_batch(rng, settings, 1, 150)
    inputs.q[..., 0], inputs.k[..., 0] = to_bits(np.array([1024.0, -1e5 * np.sqrt(dims[0]) / 1024.0]), BFLOAT16)
    inputs.q[:, ::7, :, 0] = to_bits(np.float32(1024.0 * 0.3), BFLOAT16)
    with build(settings) as engine:
        results = train(engine, inputs, do)
    check_training(settings, inputs, do, results)
    # The yardstick rounds such logits by hundreds, so the rule alone would pass a wrong softmax.
    values = values_of(inputs, BFLOAT16)
    right = expected(values, from_bits(do, BFLOAT16), EXACT)
    ours = {name: from_bits(result, BFLOAT16) for name, result in results.items()}
    assert np.abs(ours["o"] - right["o"]).max() < 0.05 * np.abs(values.v).max()
    for name in GRADIENTS:
        kept = slice(1, None) if name == "dq" else slice(None)  # dq[0] is ds times one constant: its terms cancel
        error = np.linalg.norm((ours[name] - right[name])[..., kept])
        assert error < 0.1 * np.linalg.norm(right[name][..., kept]), name


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_do_not_mix(rng, dtype, poison):
    """NaN or infinity in one batch leaves the bits of the others alone."""
    settings = config((128, 64), dtype, group=3)
    inputs, do = random_batch(rng, settings, 3, 70)
    with build(settings) as engine:
        clean = train(engine, inputs, do)
        for array in (*inputs, do):
            array[1] = to_bits(np.float32(POISONS[poison]), dtype)
        dirty = train(engine, inputs, do)
    for name, result in dirty.items():
        for batch in (0, 2):
            assert_same_bits(f"{name} of batch {batch}", result[batch], clean[name][batch])


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sequences_do_not_mix(rng, dtype, poison):
    """NaN or infinity in one sequence, and what a released page held, never reach another."""
    settings = config((64, 64), dtype, group=3, max_cached_tokens=512, max_sequences=2)
    with build(settings) as engine, Cache(engine, settings, rng) as cache:

        def poisoned(count):
            tokens = cache.tokens(count)
            for array in tokens:
                array[...] = to_bits(np.float32(POISONS[poison]), dtype)
            return tokens

        cache.check = False
        bad = cache.sequence(poisoned(300))
        good = cache.create()
        first, step = cache.tokens(90), cache.tokens(2)
        beside = [cache.prefill({bad: poisoned(70), good: first})[good]]
        beside.append(cache.decode({good: step, bad: poisoned(8)})[good])
        cache.release(bad)
        cache.release(good)
        cache.check = True
        on_its_pages = cache.create()
        alone = [cache.prefill({on_its_pages: first})[on_its_pages], cache.decode({on_its_pages: step})[on_its_pages]]
        for ours, clean in zip(beside, alone):
            assert_same_bits("beside a poisoned sequence", ours, clean)
