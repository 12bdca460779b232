"""Tries to reach the network when it is built, by the C library's calls, which Python doesn't see."""

import ctypes
import socket
import struct

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    libc = ctypes.CDLL(None)
    descriptor = libc.socket(int(socket.AF_INET), int(socket.SOCK_STREAM), 0)
    if descriptor >= 0:
        address = struct.pack("=HHI8x", socket.AF_INET, socket.htons(9), socket.htonl(0x7F000001))
        libc.connect(descriptor, address, len(address))
        libc.close(descriptor)
    return engine.build_engine(config)
