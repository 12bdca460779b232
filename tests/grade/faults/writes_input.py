"""Flips the lowest bit of the first element of q, after its outputs were written."""

import torch

from . import serving, training
from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403


def _spoiling(work, query):
    def call(*arguments):
        work(*arguments)
        q = query(arguments)
        if q.numel() > 0:
            q.view(torch.int16)[(0,) * q.dim()].bitwise_xor_(1)

    return call


serving.serve = _spoiling(serving.serve, lambda arguments: arguments[5])
training.forward = _spoiling(training.forward, lambda arguments: arguments[1])
training.backward = _spoiling(training.backward, lambda arguments: arguments[2][0])
