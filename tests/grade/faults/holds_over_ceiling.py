"""Holds ballast from torch's allocator, 16 MiB more than memory_limit_bytes, from the start."""

import torch

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    built = engine.build_engine(config)
    limit = built.memory()["bytes_limit"]
    built.ballast = torch.ones(limit + (16 << 20), dtype=torch.uint8, device=built._config.device)
    return built
