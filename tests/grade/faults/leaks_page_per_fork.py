"""Each fork takes 64 tokens of the cache's budget that no release gives back."""

from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403
from .sequences import Sequences

_right = Sequences.fork


def _leaking(self, parent):
    child = _right(self, parent)
    self.tokens += 64
    return child


Sequences.fork = _leaking
