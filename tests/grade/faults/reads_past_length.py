"""In serving every query attends to one key too many. The last one's lies past the sequence's end: here it is the first
key, as if the page had been another's before."""

from types import SimpleNamespace

import torch

from . import attention, serving
from .engine import build_engine  # noqa: F401
from .errors import *  # noqa: F403


def _past(out, q, qg, keys, count, kv_heads, step):
    def more(heads):
        return tuple(torch.cat([x, x[:, :1]], dim=1) for x in keys(heads))

    attention.forward(out, q, qg, more, count + 1, kv_heads, step)


serving.attention = SimpleNamespace(forward=_past)
