"""Prefill and decode against float64: ragged prompts of edge lengths, chunks, steps of 1 to 8 tokens, forks."""

from __future__ import annotations

import pytest

from .engines import DEVICES, DIMS, DTYPES, GROUPS, build, config
from .serving import Cache, cut

PROMPTS = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 257, 300)
CHUNKS = (17, 0, 64, 1, 130, 2, 63, 0, 8, 100, 65, 1, 16, 2)


# Every (D, R) with every group size; dtypes and devices turn.
CASES = [
    (dims, DTYPES[(i + j) % 2], group, (i + j // 2) % len(DEVICES))
    for i, dims in enumerate(DIMS)
    for j, group in enumerate(GROUPS)
]


@pytest.mark.parametrize("dims, dtype, group, device", CASES)
def test_prompts_chunks_and_decode(rng, dims, dtype, group, device):
    settings = config(dims, dtype, group, kv_heads=1 if group > 3 else 2, device=device, modes=["prefill", "decode"])
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        sequences = [cache.create() for _ in PROMPTS]
        for lengths in (PROMPTS, CHUNKS):
            cache.prefill(dict(zip(sequences, cut(cache.tokens(sum(lengths)), lengths))))
        for step in range(2):
            lengths = [1 + (step * 5 + i) % 8 for i in range(len(sequences))]
            cache.decode(dict(zip(sequences, cut(cache.tokens(sum(lengths)), lengths))))


@pytest.mark.parametrize("dims", DIMS)
def test_decode_over_several_splits(rng, dims):
    """Sequences whose keys are divided among one, two and three blocks, and merged."""
    settings = config(dims, "bfloat16", group=3, kv_heads=1, device=DIMS.index(dims), modes=["prefill", "decode"])
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        cache.check = False
        sequences = [cache.sequence(cache.tokens(length)) for length in (509, 512, 1023)]
        cache.check = True
        for lengths in ((8, 1, 3), (1, 8, 2)):
            cache.decode(dict(zip(sequences, cut(cache.tokens(sum(lengths)), lengths))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", DIMS)
def test_forks_and_truncation(rng, dims, dtype):
    """Forks write into a page that all of them share; rejected tokens leave no trace, in a page or over its edge."""
    settings = config(dims, dtype, group=2, device=DIMS.index(dims))
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        parent = cache.sequence(cache.tokens(100))
        children = [cache.fork(parent) for _ in range(3)]
        assert engine.memory()["pages_shared"] == engine.memory()["pages_used"] == 2
        cache.decode({child: cache.tokens(1 + i) for i, child in enumerate(children)})
        cache.prefill({children[0]: cache.tokens(70), parent: cache.tokens(5)})
        for kept in (102, 64, 63, 0):
            cache.truncate(children[1], kept)
            cache.decode({children[1]: cache.tokens(2), children[2]: cache.tokens(8)})
        cache.release(parent)
        cache.decode({child: cache.tokens(1) for child in children})
