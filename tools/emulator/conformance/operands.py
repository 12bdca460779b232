"""Operands of the recorded forms: random ones, with the values where instructions have their edges."""

from __future__ import annotations

import numpy as np

WORDS = 12  # 32-bit words a thread
LANES = 192  # threads a pool: six warps
MMA_LANES = 256

EDGES = [0, 1, 2, 3, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
         0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFF8000]  # fmt: skip
WIDE_EDGES = [0, 1, 2, 31, 32, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
              0x8000000000000000, 0x8000000000000001, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF80000000]  # fmt: skip
FLOAT_EDGES = [0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001,
               0xFFABCDEF, 1, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001, 0x7F7FFFFF,
               0xFF7FFFFF, 0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0x40490FDB, 0x4EFFFFFF, 0x4F000000,
               0xCF000000, 0x4F7FFFFF, 0x4F800000, 0x5F000000, 0x5F800000, 0x477FE000, 0x477FEFFF, 0x477FF000,
               0x33000000, 0x33000001, 0x387FC000, 0x38800000, 0x7F7F8000, 0x7F7F7FFF, 0xC2FC0000, 0xC3150000,
               0x42FFFFFF, 0x43000000, 0x7E800000, 0x7F000000, 0x00400000]  # fmt: skip
HALF_EDGES = [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFE12, 1, 0x8001, 0x3FF, 0x400, 0x401,
              0x7BFF, 0xFBFF, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFC3, 0x7F, 0x80, 0x7F7F,
              0xFF7F]  # fmt: skip


def _words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 1 << 32, shape, np.uint32)


def _mixed(rng: np.random.Generator, values: np.ndarray, edges: list[int]) -> np.ndarray:
    """The values, every second one replaced by an edge."""
    chosen = np.array(edges, values.dtype)[rng.integers(0, len(edges), values.shape)]
    return np.where(rng.integers(0, 2, values.shape) == 0, values, chosen)


def _some_equal(rng: np.random.Generator, pool: np.ndarray) -> np.ndarray:
    """The pool with the second operand equal to the first in every eighth thread."""
    same = rng.integers(0, 8, len(pool)) == 0
    pool[same, 1] = pool[same, 0]
    pool[same, 6:8] = pool[same, 4:6]
    return pool


def _integers(rng: np.random.Generator) -> np.ndarray:
    narrow = _mixed(rng, _words(rng, LANES, 4), EDGES)
    wide = _mixed(rng, rng.integers(0, 1 << 64, (LANES, 4), np.uint64), WIDE_EDGES)
    return _some_equal(rng, np.concatenate([narrow, wide.view(np.uint32)], axis=1))


def _fields(rng: np.random.Generator) -> np.ndarray:
    """Random words, with small numbers in %a1 and %a2 for positions, lengths and lanes."""
    pool = _words(rng, LANES, WORDS)
    pool[:, 1:3] = _mixed(rng, rng.integers(0, 40, (LANES, 2), np.uint32), EDGES)
    return pool


def _votes(rng: np.random.Generator) -> np.ndarray:
    """Warps whose lanes agree in bit 0 of %a0 or all but one do; %a2 takes few values."""
    pool = _integers(rng)
    for warp in range(LANES // 32):
        lanes = pool[warp * 32 : warp * 32 + 32]
        if warp < 4:
            lanes[:, 0] = warp & 1
        if 2 <= warp < 4:
            lanes[rng.integers(0, 32), 0] ^= 1
        lanes[:, 2] = 77 if warp < 2 else _words(rng, 4)[rng.integers(0, 4, 32)]
    return pool


def _floats(rng: np.random.Generator) -> np.ndarray:
    return _some_equal(rng, _mixed(rng, _words(rng, LANES, WORDS), FLOAT_EDGES))


def _near(rng: np.random.Generator) -> np.ndarray:
    """Floats of moderate size, both signs."""
    exponent = rng.integers(127 - 6, 127 + 6, (LANES, WORDS), np.uint32)
    return (_words(rng, LANES, WORDS) & np.uint32(0x807FFFFF)) | exponent << np.uint32(23)


def _halves(rng: np.random.Generator) -> np.ndarray:
    halves = rng.integers(0, 1 << 16, (LANES, 2 * WORDS), np.uint16)
    near = rng.integers(0, 3, halves.shape) == 0  # about one, as either type
    halves = np.where(near, (halves & 0x83FF) | 0x3C00, halves)
    return _some_equal(rng, _mixed(rng, halves, HALF_EDGES).view(np.uint32))


def mma(rng: np.random.Generator, pool: str, dtype: str, lanes: int = MMA_LANES) -> np.ndarray:
    """Fragments of A (words 0-3), B (4, 5) and C (8-11) of lanes / 32 products. dtype: bf16 or f16."""
    fraction, bias, largest = (7, 127, 254) if dtype == "bf16" else (10, 15, 30)

    def halves(low: int, high: int, words: int) -> np.ndarray:
        """16-bit floats with exponents from 2^low to 2^high; biased exponent 0 and below are subnormals."""
        shape = (lanes, 2 * words)
        exponent = np.clip(rng.integers(low, high + 1, shape) + bias, 0, largest)
        bits = rng.integers(0, 2, shape) << 15 | exponent << fraction | rng.integers(0, 1 << fraction, shape)
        return bits.astype(np.uint16)

    def floats(low: int, high: int) -> np.ndarray:
        exponent = np.clip(rng.integers(low, high + 1, (lanes, 4)) + 127, 0, 254).astype(np.uint32)
        return (_words(rng, lanes, 4) & np.uint32(0x807FFFFF)) | exponent << np.uint32(23)

    if pool == "plain":
        a, b, c = halves(-3, 1, 4), halves(-3, 1, 2), floats(-4, 3)
    elif pool == "spread":
        a, b, c = halves(-14, 14, 4), halves(-14, 14, 2), floats(-30, 30)
    elif pool == "cancel":
        # Neighbours along k cancel but for their last bits; C is small.
        a, b, c = halves(-2, 2, 4), halves(-2, 2, 2), floats(-24, 0)
        flips = rng.integers(0, 4, (lanes, 4)).astype(np.uint16)
        a[:, 1::2] = a[:, ::2] ^ np.uint16(0x8000) ^ flips
        b[:, 1::2] = b[:, ::2]
    elif pool == "tiny":
        smallest = -bias - 2
        a, b, c = halves(smallest, smallest + 6, 4), halves(-6, 6, 2), floats(smallest, smallest + 16)
        c[rng.integers(0, 2, c.shape) == 0] &= np.uint32(0x807FFFFF)
    else:
        a, b, c = halves(-2, 2, 4), halves(-2, 2, 2), floats(-2, 2)
        infinity = largest + 1 << fraction
        for bits in (a, b):
            where = rng.integers(0, 40, bits.shape)
            bits[where == 0] = infinity | (bits[where == 0] & 0x8000)
            bits[where == 1] |= 0x8000
            bits[where == 2] &= 0x8000
        a[rng.integers(0, 300, a.shape) == 0] = infinity | 5
        c = np.where(rng.integers(0, 8, c.shape) == 0, _mixed(rng, c, FLOAT_EDGES), c)
    words = [half.astype(np.uint16).view(np.uint32) for half in (a, b)]
    return np.concatenate([*words, np.zeros((lanes, 2), np.uint32), c], axis=1)


def pools() -> dict[str, np.ndarray]:
    """Every pool by name: uint32 [threads, WORDS]."""
    made = {}
    makers = {
        "integers": _integers,
        "fields": _fields,
        "votes": _votes,
        "floats": _floats,
        "near": _near,
        "halves": _halves,
    }
    for seed, (name, make) in enumerate(makers.items()):
        made[name] = make(np.random.default_rng(seed))
    for dtype in ("bf16", "f16"):
        for seed, name in enumerate(("plain", "spread", "cancel", "tiny", "special")):
            made[f"mma_{name}_{dtype}"] = mma(np.random.default_rng(100 + seed), name, dtype)
    return made
