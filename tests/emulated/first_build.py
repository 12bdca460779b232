"""A process's first build_engine, one driver call of which fails, and a second one with results."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import submission

from tests.python.emulator import Emulator

from .engines import config
from .serving import Cache
from .training import random_batch, train

UNKNOWN_ERROR = 999
SETTINGS = config((64, 32), group=3, kv_heads=1, max_sequences=6, max_cached_tokens=1024)


@dataclass
class Report:
    """message: of the first build's DriverError, None if it succeeded. left: objects alive after that error.

    calls: of the first build. context: as Emulator.current after it. digest: of the results of an engine built in the
    end. modules, alive: loaded, and other objects alive, after that engine was closed. faults: the emulator's.
    """

    message: str | None
    left: int
    calls: dict[str, int]
    context: tuple[int, int]
    digest: str
    modules: int
    alive: int
    faults: list[str]


def _results(engine, seed: int) -> str:
    """A digest of training and serving results."""
    rng = np.random.default_rng(seed)
    inputs, do = random_batch(rng, SETTINGS, 1, 20)
    results = list(train(engine, inputs, do).values())
    with Cache(engine, SETTINGS, rng) as cache:
        parent = cache.create()
        results += cache.prefill({parent: cache.tokens(20)}).values()
        results += cache.decode({cache.fork(parent): cache.tokens(2)}).values()
    return hashlib.sha256(b"".join(x.tobytes() for x in results)).hexdigest()


def first_build(function: str, nth: int, seed: int) -> Report:
    """Builds with the nth call of a function failing (none if nth is 0), then without, and uses the engine."""
    emulator = Emulator()
    emulator.fail(function, nth, UNKNOWN_ERROR)
    engine = message = None
    left = 0
    try:
        engine = submission.build_engine(SETTINGS)
    except submission.DriverError as error:
        message = str(error)
        left = sum(emulator.live().values())
    calls, context = emulator.calls(), emulator.current()
    emulator.set_current_device(-1)
    emulator.fail(function, 0, 0)
    with engine or submission.build_engine(SETTINGS) as engine:
        digest = _results(engine, seed)
    alive, modules = sum(emulator.live().values()), emulator.library.emulator_live(b"module")
    return Report(message, left, calls, context, digest, modules, alive, emulator.faults())
