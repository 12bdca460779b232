"""Raises RuntimeError where the cache is full, rather than PagesExhausted."""

from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403
from .errors import PagesExhausted
from .sequences import Sequences

_right = Sequences.check_append


def _check(self, ids, lengths):
    try:
        _right(self, ids, lengths)
    except PagesExhausted as error:
        raise RuntimeError(str(error)) from None


Sequences.check_append = _check
