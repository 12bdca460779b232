"""Starts a process that lives on, in a session of its own."""

import os
import time

from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403

try:
    if not os.fork():
        os.setsid()
        time.sleep(60)
        os._exit(0)
except OSError:
    pass
