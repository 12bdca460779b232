"""Lengths, totals and batches of 0: they succeed, launch nothing of zero extent, and leave the neighbours right."""

from __future__ import annotations

import numpy as np
import pytest

from .engines import DIMS, build, config
from .serving import Cache, call, cut
from .training import check_training, random_batch, train


@pytest.mark.parametrize("lengths", [(0, 0, 0), (0, 70, 0), (5, 0, 64), (0,)])
@pytest.mark.parametrize("dims", DIMS)
def test_sequences_without_new_tokens(rng, emulator, dims, lengths):
    settings = config(dims, group=3)
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        sequences = [cache.create() for _ in lengths]
        emulator.reset()
        cache.prefill(dict(zip(sequences, cut(cache.tokens(sum(lengths)), lengths))))
        assert bool(emulator.launches()) == any(lengths)
        assert [engine.length(sequence) for sequence in sequences] == list(lengths)
        held = [cache.sequence(cache.tokens(count)) for count in (64, 10)]
        cache.prefill({held[0]: cache.tokens(0), held[1]: cache.tokens(3)})
        cache.decode({sequence: cache.tokens(1) for sequence in (*sequences, *held)})


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_no_sequences(rng, emulator, mode):
    settings = config((128, 32))
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        emulator.reset()
        nothing = cache.tokens(0)
        out = np.empty_like(nothing.q)
        assert getattr(engine, mode)([], *nothing, [], out=out) is out
        assert emulator.launches() == []


def test_decode_of_no_tokens_is_refused(rng):
    import submission

    settings = config((64, 32))
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        sequence = cache.sequence(cache.tokens(5))
        with pytest.raises(submission.LengthError, match="^lengths: expected 1 to 8 tokens"):
            call(engine, "decode", {sequence: cache.tokens(0)})
        assert engine.length(sequence) == 5


@pytest.mark.parametrize("batch, length", [(0, 17), (2, 0), (0, 0)])
def test_empty_batches(rng, emulator, batch, length):
    settings = config((64, 64), group=3)
    inputs, do = random_batch(rng, settings, batch, length)
    with build(settings) as engine:
        emulator.reset()
        results = train(engine, inputs, do)
        assert emulator.launches() == []
        assert [x.shape for x in results.values()] == [x.shape for x in (inputs.q, *inputs)]
        more, upstream = random_batch(rng, settings, 1, 20)
        check_training(settings, more, upstream, train(engine, more, upstream))
