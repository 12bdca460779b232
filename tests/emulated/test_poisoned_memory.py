"""Results don't depend on what the engine's memory held: cache, partials, tables, workspaces full of NaN or zeros."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from .arrays import assert_same_bits
from .engines import DEVICES, STRATA, build, config
from .serving import Cache, cut
from .training import random_batch, train

PROMPTS = (1, 63, 65, 130, 520)  # none a multiple of a page or a tile


@pytest.mark.parametrize("dims, dtype", STRATA)
def test_cache_and_partials(rng, monkeypatch, dims, dtype):
    settings = config(dims, dtype, group=3, kv_heads=1, device=STRATA.index((dims, dtype)) % len(DEVICES))
    seed = rng.integers(2**32)
    results = []
    for poison in ("0", "1"):
        monkeypatch.setenv("STRATUM_POISON", poison)
        with build(settings) as engine, Cache(engine, settings, np.random.default_rng(seed), check=False) as cache:
            sequences = [cache.create() for _ in PROMPTS]
            outputs = list(cache.prefill(dict(zip(sequences, cut(cache.tokens(sum(PROMPTS)), PROMPTS)))).values())
            sequences.append(cache.fork(sequences[2]))  # whose first token copies a page
            lengths = (1, 8, 3, 5, 2, 1)
            outputs += cache.decode(dict(zip(sequences, cut(cache.tokens(sum(lengths)), lengths)))).values()
            results.append(np.concatenate(outputs))
    assert_same_bits("o", results[1], results[0])


@pytest.mark.parametrize("length", [1, 65, 130])
@pytest.mark.parametrize("dims, dtype", STRATA)
def test_workspaces_of_training(rng, monkeypatch, dims, dtype, length):
    from submission import training, workspace

    settings = config(dims, dtype, group=3, device=STRATA.index((dims, dtype)) % len(DEVICES), modes=["training"])
    inputs, do = random_batch(rng, settings, 1, length)

    def filled(byte):
        def allocate(engine, nbytes, *where):
            memory = workspace.allocate(engine, nbytes, *where)
            ctypes.memset(memory.data_ptr(), byte, nbytes)
            return memory

        return allocate

    results = []
    with build(settings) as engine:
        for byte in (0x00, 0xFF):
            monkeypatch.setattr(training, "allocate", filled(byte))
            results.append(train(engine, inputs, do))
    for name in results[0]:
        assert_same_bits(name, results[1][name], results[0][name])
