"""Flips the lowest bit of one element of one output, another one in each process: in the first output that has at least
1,024 elements."""

import os

import torch

from . import serving, training
from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403

_flipped = False


def _flip(out: torch.Tensor) -> None:
    global _flipped
    if _flipped or out.numel() < 1024:
        return
    _flipped = True
    bits = out.view(torch.int16)
    for extent in out.shape:
        bits = bits[int.from_bytes(os.urandom(8), "little") % extent]
    bits.bitwise_xor_(1)


def _flipping(work, first_output):
    def call(*arguments):
        work(*arguments)
        _flip(first_output(arguments))

    return call


serving.serve = _flipping(serving.serve, lambda arguments: arguments[-1])
training.forward = _flipping(training.forward, lambda arguments: arguments[-1])
training.backward = _flipping(training.backward, lambda arguments: arguments[1][0])
