"""Calls of an engine on the emulator, small ones in which every kernel of an operation comes to its tails.

    python -m tests.seeded.scenarios FOLDER SCENARIO

runs one of them with the engine in FOLDER and prints what came of it as JSON: `faults` that the emulator noted, the
`error` of the call that failed or null, and the results before that which are `wrong` by the accuracy rule.
STRATUM_DRIVER names the emulator.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from functools import partial
from pathlib import Path

from tests.python.emulator import Emulator
from tools.emulator.inspection import Inspection

from .session import Session


def prefill(session: Session) -> None:
    """Two prompts in one call, both of which end inside a tile, and a chunk whose first warp
    doesn't see the last tile."""
    a, b = session.create(), session.create()
    session.append("prefill", {a: 70, b: 100})
    session.append("prefill", {b: 60})


def decode(session: Session) -> None:
    """Three tokens of a sequence of two splits, and one of a short sequence."""
    a, b = session.create(), session.create()
    session.append("prefill", {a: 530, b: 37})
    session.append("decode", {a: 3, b: 1})


def fork(session: Session) -> None:
    """A fork writes to the page that it shares; then both go on."""
    a = session.create()
    session.append("prefill", {a: 50})
    b = session.fork(a)
    session.append("decode", {b: 2})
    session.append("decode", {a: 1, b: 1})


def release(session: Session) -> None:
    """A sequence goes on after the one before it was released."""
    a, b = session.create(), session.create()
    session.append("prefill", {a: 60, b: 60})
    session.engine.release(a)
    session.append("decode", {b: 2})


BLOCK_INSTRUCTIONS = 1_000_000  # many times what a block of any of these calls takes

TRAINING, SERVING = ["training"], ["prefill", "decode"]
SCENARIOS = {
    "training": (TRAINING, partial(Session.train, batch=2, length=150)),
    "training of one tile": (TRAINING, partial(Session.train, batch=1, length=50)),
    "training far apart": (TRAINING, partial(Session.train, batch=1, length=70, far=True)),
    "prefill": (SERVING, prefill),
    "decode": (SERVING, decode),
    "fork": (SERVING, fork),
    "release": (SERVING, release),
}


def run(package, scenario: str) -> dict:
    """Runs a scenario up to the first call that fails."""
    modes, calls = SCENARIOS[scenario]
    session, error = Session(package, modes), None
    Inspection(Path(os.environ["STRATUM_DRIVER"])).limit(BLOCK_INSTRUCTIONS)
    try:
        calls(session)
    except package.EngineError as failed:
        error = f"{type(failed).__name__}: {failed}"
    return {"faults": Emulator().faults(), "error": error, "wrong": session.wrong}


def main() -> None:
    """Runs what the command line names."""
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(folder.parent))
    print(json.dumps(run(importlib.import_module(folder.name), sys.argv[2])))


if __name__ == "__main__":
    main()
