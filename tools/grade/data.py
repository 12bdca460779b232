"""The values of a grading's arrays: a function of salt, seed, operand and place, computed where they are needed.

Counter-based: any rows of a stream can be had alone, and cutting a prompt elsewhere doesn't change its tokens. The same
salt gives the same values everywhere, up to the last bit of the machine's logarithm and cosine.
"""

from __future__ import annotations

import hashlib
import secrets
from types import ModuleType

import numpy as np

from tools.reference.bits import to_bits

_GOLDEN = 0x9E3779B97F4A7C15


def fresh_salt() -> str:
    """A salt from the operating system's randomness."""
    return secrets.token_hex(16)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every output bit depends on every input bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Source:
    """Standard normal values of one grading, as raw bits of `dtype`, in arrays of `xp` (numpy or CuPy)."""

    def __init__(self, salt: str, dtype: str, xp: ModuleType = np) -> None:
        self.salt, self.dtype, self.xp = salt, dtype, xp

    def rows(self, seed: str, operand: str, start: int, shape: tuple[int, int, int], scale: float = 1.0) -> np.ndarray:
        """Rows start ... start + shape[0] - 1 of the stream (seed, operand): uint16 [rows, heads, dim]."""
        count = shape[1] * shape[2]
        return to_bits(self._normal(f"{seed}/{operand}", start * count, shape[0] * count) * scale, self.dtype).reshape(
            shape
        )

    def _normal(self, stream: str, start: int, count: int) -> np.ndarray:
        """By Box and Muller, two 24-bit uniform numbers for each value."""
        digest = hashlib.sha256(f"{self.salt}/{stream}".encode()).digest()
        key = np.uint64(int.from_bytes(digest[:8], "little"))
        counter = self.xp.arange(start, start + count, dtype=np.uint64)
        bits = _mix(_mix(counter * np.uint64(_GOLDEN) + key) ^ np.uint64(int.from_bytes(digest[8:16], "little")))
        radius = np.sqrt(
            -2 * np.log(((bits >> np.uint64(40)).astype(np.float32) + np.float32(0.5)) / np.float32(1 << 24))
        )
        angle = ((bits >> np.uint64(8)) & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2 * np.pi / (1 << 24))
        return radius * np.cos(angle)
