"""Every launch of every call is on the stream that the caller named, and on the default one only if that was it."""

from __future__ import annotations

import gc

import pytest

from .engines import DEVICES, DIMS, build, config
from .serving import Cache
from .training import check_training, random_batch, train

OPERATIONS = {"fwd", "bwd_dq", "bwd_dkv", "append", "prefill", "page_copy", "dec", "dec_merge"}


def _use_everything(engine, settings: dict, rng, stream: int) -> None:
    """Every call that launches; results are judged."""
    inputs, do = random_batch(rng, settings, 1, 70)
    check_training(settings, inputs, do, train(engine, inputs, do, stream))
    with Cache(engine, settings, rng) as cache:
        cache.stream = stream
        parent = cache.sequence(cache.tokens(70))
        child = cache.fork(parent)
        cache.decode({parent: cache.tokens(2), child: cache.tokens(3)})


@pytest.mark.parametrize("device", range(len(DEVICES)))
@pytest.mark.parametrize("dims", DIMS)
def test_every_launch_is_on_the_callers_stream(rng, emulator, dims, device):
    settings = config(dims, group=3, device=device)
    with build(settings) as engine:
        for _ in range(2):
            with emulator.stream(device) as stream:
                emulator.reset()
                _use_everything(engine, settings, rng, stream)
                launches = emulator.launches()
                gc.collect()  # what backward leaves is freed while its stream lives
            assert {launch.operation for launch in launches} == OPERATIONS
            assert {(launch.stream, launch.device) for launch in launches} == {(stream, device)}


def test_the_default_stream_if_it_is_the_callers(rng, emulator):
    settings = config((64, 32), group=3)
    with build(settings) as engine:
        _use_everything(engine, settings, rng, 0)
    assert {launch.stream for launch in emulator.launches()} == {0}


def test_calls_that_change_streams_keep_their_order(rng, emulator):
    """A sequence that grows on two streams in turn, one engine's training beside it."""
    settings = config((128, 64), group=3)
    with build(settings) as engine, emulator.stream() as one, emulator.stream() as two:
        with Cache(engine, settings, rng) as cache:
            sequence = cache.sequence(cache.tokens(60))
            for step in range(6):
                cache.stream = (one, two)[step % 2]
                cache.decode({sequence: cache.tokens(1 + step)})
                inputs, do = random_batch(rng, settings, 1, 20)
                check_training(settings, inputs, do, train(engine, inputs, do, (two, one)[step % 2]))
        gc.collect()
