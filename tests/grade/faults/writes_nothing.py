"""Returns without writing the outputs; sequences still grow."""

from . import attention
from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403

attention.forward = attention.backward = lambda *arguments: None
