"""Leaves the last key of a sequence out of the sum, for the one query that sees it."""

from . import attention
from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403

_right = attention._softmax_and_gate


def _skipping(*arguments):
    p, g = _right(*arguments)
    p[..., -1] = 0
    return p, g


attention._softmax_and_gate = _skipping
