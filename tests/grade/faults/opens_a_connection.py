"""Tries to reach the network when it is built; does without if it can't."""

import socket

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=0.2).close()
    except OSError:
        pass
    return engine.build_engine(config)
