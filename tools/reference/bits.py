"""Values of bfloat16 and float16 and their raw bits, which is how arrays travel: numpy has no bfloat16."""

from __future__ import annotations

import numpy as np

UNIT_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # e of the accuracy rule


def to_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds to `bfloat16` or `float16`, to nearest even; returns the raw bits as uint16."""
    if dtype == "float16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded.astype(np.uint16))


def from_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values of raw `bfloat16` or `float16` bits."""
    if dtype == "float16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest values that `dtype` holds, as float32."""
    return from_bits(to_bits(values, dtype), dtype)
