"""Leaves a file in /tmp when it is built, whatever TMPDIR says; does without if it can't."""

import os

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    try:
        with open(f"/tmp/fault_writes_to_tmp_{os.getpid()}", "wb") as file:
            file.write(bytes(64))
    except OSError:
        pass
    return engine.build_engine(config)
