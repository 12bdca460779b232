"""Bugs that somebody could write into the portable kernels, and how the emulator must report each."""

from .bug import Bug
from .order import ORDER
from .places import PLACES
from .together import TOGETHER
from .values import VALUES

BUGS = (*ORDER, *TOGETHER, *PLACES, *VALUES)

__all__ = ["BUGS", "Bug"]
