"""Raises when it is closed."""

from .engine import Engine, build_engine  # noqa: F401
from .errors import *  # noqa: F403


def _close(self):
    raise ValueError("no")


Engine.close = _close
