"""Training and serving interleaved on two streams with nothing waited for until the end; run in a fresh process, which
reads the emulator's schedule from the environment once."""

from __future__ import annotations

import gc
import os

import numpy as np

from tests.python.emulator import Emulator

from .arrays import Guarded, random_inputs, synchronize
from .engines import build, config
from .training import random_batch

STEPS = 7  # more than there are staging slots


def _train(engine, settings: dict, rng: np.random.Generator, stream: int) -> tuple[list, list]:
    """Queues forward and backward; returns the outputs, and the inputs, which must live until they ran."""
    inputs, do = random_batch(rng, settings, 1, int(rng.integers(1, 80)))
    outputs = [Guarded(x.shape).array for x in (inputs.q, *inputs)]
    _, saved = engine.forward(*inputs, out=outputs[0], stream=stream)
    engine.backward(saved, do, out=tuple(outputs[1:]), stream=stream)
    return outputs, [*inputs, do]


def _serve(engine, settings: dict, rng: np.random.Generator, lengths: dict[int, int], mode: str, stream: int):
    """The same of a serving call: `lengths` maps ids to numbers of tokens."""
    inputs = random_inputs(rng, settings, sum(lengths.values()))
    out = Guarded(inputs.q.shape).array
    getattr(engine, mode)(list(lengths), *inputs, list(lengths.values()), out=out, stream=stream)
    return [out], list(inputs)


def run(schedule: str, dims: tuple[int, int], dtype: str, seed: int) -> tuple[list[bytes], int, list[str]]:
    """Every output in the order of the calls, the most work that hadn't run at the end of a step, and faults.

    Pages are copied, given back and taken by other sequences while calls that use them are queued on either stream.
    """
    os.environ["STRATUM_EMULATOR_SCHEDULE"] = schedule
    emulator, rng = Emulator(), np.random.default_rng(seed)
    settings = config(dims, dtype, group=3, kv_heads=1, max_sequences=5, max_cached_tokens=256, max_seq_len=1024)
    done, queued = [], 0
    with emulator.stream() as one, emulator.stream() as two, build(settings) as engine:
        streams = one, two
        sequence = engine.create()
        done.append(_serve(engine, settings, rng, {sequence: 70}, "prefill", one))
        for step in range(STEPS):
            here, there = streams[step % 2], streams[1 - step % 2]
            done.append(_train(engine, settings, rng, here))
            fork, fresh = engine.fork(sequence), engine.create()
            done.append(_serve(engine, settings, rng, {fork: 2, sequence: 3}, "decode", there))
            done.append(_serve(engine, settings, rng, {fresh: 130, fork: 0}, "prefill", here))
            done.append(_train(engine, settings, rng, there))
            engine.truncate(fork, 40)
            done.append(_serve(engine, settings, rng, {fork: 1, fresh: 8}, "decode", here))
            engine.release(fork)
            engine.release(fresh)
            queued = max(queued, emulator.library.emulator_queued())
        synchronize()
        gc.collect()
    return [out.tobytes() for outputs, _ in done for out in outputs], queued, emulator.faults()
