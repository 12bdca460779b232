"""A pool of more than 2^31 elements: its highest pages give the bits of a small pool's pages.

Nearly all of the pool is address space that nobody touches.
"""

from __future__ import annotations

import numpy as np
import pytest

from .arrays import assert_same_bits
from .engines import DIMS, build, config
from .serving import Cache, cut

KV_HEADS, PAGE_TOKENS = 64, 64
PROMPT, STEP = 70, 8
ROOM = 4  # pages left for the sequences under test
CHUNK = 4096  # tokens of a call that takes pages


def _run(cache: Cache) -> list[np.ndarray]:
    """A prompt in two chunks, a fork that copies a page, decode of both."""
    parent = cache.create()
    outputs = [cache.prefill({parent: part})[parent] for part in cut(cache.tokens(PROMPT), (30, PROMPT - 30))]
    child = cache.fork(parent)
    return outputs + list(cache.decode({parent: cache.tokens(STEP), child: cache.tokens(1)}).values())


def _take_lowest_pages(engine, settings: dict, emulator) -> None:
    """Grows one sequence until only ROOM pages are free; nothing runs, so that no page is written."""
    d, r, heads = settings["head_dim"], settings["gate_dim"], (CHUNK, KV_HEADS)
    zeros = np.zeros(d, np.uint16)
    inputs = [np.broadcast_to(zeros[:width], (*heads, width)) for width in (d, d, d, r, r)]
    out = np.empty(inputs[0].shape, np.uint16)
    sequence = engine.create()
    with emulator.not_executing():
        while (pages := engine.memory()["pages_free"] - ROOM) > 0:
            count = min(CHUNK, pages * PAGE_TOKENS)
            engine.prefill([sequence], *(x[:count] for x in inputs), [count], out=out[:count])


@pytest.mark.parametrize("dims", DIMS)
def test_highest_pages(rng, emulator, dims):
    seed = rng.integers(2**32)
    page_elements = PAGE_TOKENS * KV_HEADS * (2 * dims[0] + dims[1])
    tokens = ((1 << 31) // page_elements + 1) * PAGE_TOKENS
    small = config(dims, kv_heads=KV_HEADS, modes=["prefill", "decode"], max_sequences=3, device=DIMS.index(dims))
    large = {**small, "max_cached_tokens": tokens, "max_seq_len": tokens + 5 * PAGE_TOKENS}
    with build(small) as engine, Cache(engine, small, np.random.default_rng(seed)) as cache:
        expected = _run(cache)
    with build(large) as engine:
        _take_lowest_pages(engine, large, emulator)
        memory = engine.memory()
        assert memory["pages_used"] * page_elements > 1 << 31 and memory["pages_free"] == ROOM
        for i, (ours, low) in enumerate(zip(_run(Cache(engine, large, np.random.default_rng(seed), False)), expected)):
            assert_same_bits(f"output {i}", ours, low)
        assert engine.memory()["pages_free"] < ROOM - 1
