"""Ends the process with exit code 3."""

import atexit
import os

from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403

atexit.register(os._exit, 3)
