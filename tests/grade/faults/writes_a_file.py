"""Leaves a file in its own folder when it is built; does without if it can't."""

import os

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    try:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cache.bin"), "wb") as file:
            file.write(bytes(64))
    except OSError:
        pass
    return engine.build_engine(config)
