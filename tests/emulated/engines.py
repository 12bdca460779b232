"""Engines of the assembled folder: what they may be built for, and the emulator's devices."""

from __future__ import annotations

from itertools import product
from typing import Any

# Compute capability of each pretended device: the pack has kernels of their own for each of them.
DEVICES = ("8.0", "9.0", "10.0", "12.0")
DIMS = ((64, 32), (64, 64), (128, 32), (128, 64))  # head_dim, gate_dim
DTYPES = ("bfloat16", "float16")
GROUPS = (1, 3, 8, 2, 5)
STRATA = tuple(product(DIMS, DTYPES))

CAPACITY = {"max_sequences": 32, "max_seq_len": 1088, "max_cached_tokens": 8192}


def config(dims: tuple[int, int], dtype: str = "bfloat16", group: int = 1, kv_heads: int = 2, **more: Any) -> dict:
    """A configuration for build_engine with room for the tests' sequences; `more` are keys of its own."""
    heads = {"head_dim": dims[0], "gate_dim": dims[1], "q_heads": group * kv_heads, "kv_heads": kv_heads}
    return {**heads, "dtype": dtype, "device": 0, **CAPACITY, **more}


def build(settings: dict) -> Any:
    """An engine of the assembled folder."""
    import submission

    return submission.build_engine(settings)
