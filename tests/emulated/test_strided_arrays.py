"""Arrays that aren't contiguous give the bits of contiguous ones, or are refused before anything is launched."""

from __future__ import annotations

import numpy as np
import pytest

from tools.reference.attention import Inputs

from .arrays import Guarded, assert_same_bits, random_bits
from .engines import DIMS, build, config
from .serving import Cache
from .training import RESULTS, check_training, random_batch, train

BATCH, LENGTH = 2, 70


def contiguous(array: np.ndarray) -> np.ndarray:
    copy = Guarded(array.shape).array
    copy[...] = array
    return copy


def expanded(rng, shape, dtype):
    """One value for every element: what sum().backward() gives, but for the last axis, which stays dense."""
    return np.broadcast_to(random_bits(rng, shape[-1:], dtype), shape)


def sliced(rng, shape, dtype):
    """Rows of a wider array, every second token."""
    batch, length, heads, width = shape
    return random_bits(rng, (batch, 2 * length, heads + 1, width + 16), dtype)[:, ::2, 1:, 8 : 8 + width]


def transposed(rng, shape, dtype):
    """A [B,H,S,D] array seen as [B,S,H,D]."""
    batch, length, heads, width = shape
    return random_bits(rng, (batch, heads, length, width), dtype).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("view", [expanded, sliced, transposed])
@pytest.mark.parametrize("dims", DIMS)
def test_upstream_gradient(rng, dims, view):
    settings = config(dims, group=3)
    inputs, do = random_batch(rng, settings, BATCH, LENGTH)
    do = view(rng, do.shape, settings["dtype"])
    assert not do.flags.c_contiguous
    with build(settings) as engine:
        results, dense = train(engine, inputs, do), train(engine, inputs, contiguous(do))
    check_training(settings, inputs, do, results)
    for name in RESULTS:
        assert_same_bits(name, results[name], dense[name])


@pytest.mark.parametrize("dims", DIMS)
def test_q_k_v_of_one_packed_array(rng, dims):
    settings = config(dims, group=3)
    heads = settings["q_heads"], settings["kv_heads"], settings["kv_heads"]
    packed = random_bits(rng, (BATCH, LENGTH, sum(heads), dims[0]), settings["dtype"])
    gates = random_bits(rng, (BATCH, LENGTH, sum(heads[:2]), dims[1]), settings["dtype"])
    q, k, v = np.split(packed, np.cumsum(heads)[:2], axis=2)
    inputs = Inputs(q, k, v, *np.split(gates, heads[:1], axis=2))
    do = random_bits(rng, q.shape, settings["dtype"])
    with build(settings) as engine:
        results = train(engine, inputs, do)
        dense = train(engine, Inputs(*map(contiguous, inputs)), do)
    check_training(settings, inputs, do, results)
    for name in RESULTS:
        assert_same_bits(name, results[name], dense[name])


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_serving_from_one_packed_array(rng, mode):
    """Rows of q, k, v side by side, outputs into every second row of a wider array."""
    settings = config((128, 64), group=3)
    heads = settings["q_heads"], settings["kv_heads"], settings["kv_heads"]
    packed = random_bits(rng, (8, sum(heads), 128), settings["dtype"])
    gates = random_bits(rng, (8, sum(heads[:2]), 64), settings["dtype"])
    views = (*np.split(packed, np.cumsum(heads)[:2], axis=1), *np.split(gates, heads[:1], axis=1))
    room = Guarded((16, heads[0], 128))
    out = room.array[::2]
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        first, second = cache.sequence(cache.tokens(100)), cache.create()
        second = cache.fork(first)
        dense = getattr(cache, mode)({first: Inputs(*map(contiguous, views))})[first]
        getattr(engine, mode)([second], *views, [8], out=out)
        assert_same_bits("o", out, dense)
        untouched = Guarded((8, heads[0], 128)).array
        assert_same_bits("the rows between", room.array[1::2], untouched)
        room.assert_guards_intact("o")


@pytest.mark.parametrize("name", Inputs._fields)
@pytest.mark.parametrize("bytes_off", [2, 4, 8])
def test_an_address_off_by_a_few_bytes_is_refused(rng, emulator, name, bytes_off):
    import submission

    settings = config((64, 32), group=3)
    inputs, do = random_batch(rng, settings, BATCH, LENGTH)
    right = getattr(inputs, name)
    memory = Guarded((right.size + 8,)).array
    off = memory[bytes_off // 2 : bytes_off // 2 + right.size].reshape(right.shape)
    off[...] = right
    with build(settings) as engine:
        emulator.reset()
        with pytest.raises(submission.StrideError, match=f"^{name}: .*16"):
            train(engine, inputs._replace(**{name: off}), do)
        assert emulator.launches() == []
        check_training(settings, inputs, do, train(engine, inputs, do))


@pytest.mark.parametrize("name", Inputs._fields)
def test_a_stride_of_no_multiple_of_16_bytes_is_refused(rng, emulator, name):
    import submission

    settings = config((64, 32), group=3)
    inputs, do = random_batch(rng, settings, BATCH, LENGTH)
    right = getattr(inputs, name)
    crooked = random_bits(rng, (*right.shape[:3], right.shape[3] + 4), settings["dtype"])[..., : right.shape[3]]
    with build(settings) as engine:
        emulator.reset()
        with pytest.raises(submission.StrideError, match=f"^{name}: "):
            train(engine, inputs._replace(**{name: crooked}), do)
        assert emulator.launches() == []
        check_training(settings, inputs, do, train(engine, inputs, do))
