"""Starts another program when it is built; does without if it can't."""

import subprocess

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    try:
        subprocess.run(["/bin/true"])
    except OSError:
        pass
    return engine.build_engine(config)
