"""Opens the memory of the process that started it."""

import os

from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403

try:
    os.close(os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR))
except OSError:
    pass
