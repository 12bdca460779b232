"""Finds the rule behind a GPU's approximations in what capture.py recorded, and writes it as tables.

    python -m tools.emulator.conformance.tables FOLDER tools/emulator/exec/approximation_tables.inc

The hardware interpolates (S. Oberman, M. Siu, "A High-Performance Area-Efficient Multifunction Interpolator", 2005):
upper bits of the argument choose a segment, the lower ones are t, and the result is c0 + c1 t + c2 t², cut off, with
integer coefficients. t² comes from a squarer without its lower columns. Given that, a least-squares fit is near enough
to try its neighbours; the one that gives every recorded bit is the rule. Errors: ValueError for a segment without one.
"""

from __future__ import annotations

import argparse
import lzma
from itertools import product
from pathlib import Path

import numpy as np

from .capture import BINADE

SQUARE_BITS = 17
SQUARE_CUT = 19  # columns of the squarer that are left out


def load(folder: Path, name: str, upper: int) -> np.ndarray:
    """The results of a binade, int64 bits of floats, [2^23]."""
    planes = np.frombuffer(lzma.decompress((folder / f"{name}.{upper}.npy.xz").read_bytes()), np.uint8).reshape(4, -1)
    differences = np.ascontiguousarray(planes.T).view(np.uint32).ravel()
    return np.cumsum(differences, dtype=np.uint32).astype(np.int64)


def truncated_square(t: np.ndarray) -> np.ndarray:
    """t² / 2^SQUARE_CUT for 17-bit integers: the sum of the products of bits i and j that lie in columns kept."""
    bits = [t >> i & 1 for i in range(SQUARE_BITS)]
    total = np.zeros_like(t)
    for i in range(SQUARE_BITS):
        for j in range(i, SQUARE_BITS):
            column = i + j + (i != j)
            if column >= SQUARE_CUT:
                total += (bits[i] & bits[j]) << (column - SQUARE_CUT)
    return total


def bounds(floats: np.ndarray, unit: int, least: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The values, in units of 2^-unit, that are cut off to the magnitudes of normal floats: from, below.

    least: lower bits of the value that are always cut off.
    """
    shift = (floats >> 23 & 0xFF) - 150 + unit
    significand = floats & 0x7FFFFF | 0x800000
    low = significand << np.maximum(shift, 0) >> np.maximum(-shift, 0)
    return low, low + (1 << np.maximum(shift, least))


def fit(low: np.ndarray, high: np.ndarray, t: np.ndarray, step: int) -> tuple[int, int, int]:
    """The coefficients, c1 and c2 multiples of `step`, with low <= c0 + c1 t + c2 t² < high everywhere."""
    square = truncated_square(t)
    scale = np.array([1.0, 1 << SQUARE_BITS, 1 << 2 * SQUARE_BITS - SQUARE_CUT])
    terms = np.stack([np.ones(len(t)), t, square], axis=1) / scale
    weight = 1 / (high - low)
    middle = (low - low[0] + high - low[0] - 1) / 2
    near = np.linalg.lstsq(terms * weight[:, None], middle * weight, rcond=None)[0] / scale / step
    for d1, d2 in sorted(product(range(-6, 7), repeat=2), key=lambda d: abs(d[0]) + abs(d[1])):
        c1, c2 = (round(near[1]) + d1) * step, (round(near[2]) + d2) * step
        rest = c1 * t + c2 * square
        least, most = (low - rest).max(), (high - 1 - rest).min()
        if least <= most:
            return int(least), c1, c2
    raise ValueError("no coefficients give every result of a segment")


def binade(floats: np.ndarray, unit: int, ignored_bits: int = 0, bits: int = SQUARE_BITS, step: int = 1) -> list:
    """The segments of a binade, t having `bits` bits. ignored_bits: lower bits of the argument that don't matter."""
    low, high = bounds(floats[:: 1 << ignored_bits], unit)
    t = np.arange(1 << bits) << (SQUARE_BITS - bits)
    return [fit(a, b, t, step) for a, b in zip(low.reshape(-1, len(t)), high.reshape(-1, len(t)))]


def exp2(folder: Path) -> list:
    """2^x on [0, 1), in units of 2^-38."""
    return binade(load(folder, "ex2", 127) - BINADE, 38)


def log2(folder: Path) -> list:
    """log2(x) on [1, 2), in units of 2^-38.

    Three binades tell of it: [2, 4) adds 1, and [0.5, 1) adds -1 and complements the bits of the negative sum. Of small
    results multiples of 2^-36 are left.
    """
    one = 1 << 38
    low, high = (each - one for each in bounds(load(folder, "lg2", 128), 38))
    own_low, own_high = bounds(load(folder, "lg2", 127), 38, least=2)
    least, below = bounds(load(folder, "lg2", 126), 38, least=2)
    low, high = np.maximum(low, one - below), np.minimum(high, one - least)
    low[1:], high[1:] = np.maximum(low, own_low)[1:], np.minimum(high, own_high)[1:]  # log2(1) is a case of its own
    t = np.arange(1 << SQUARE_BITS)
    return [fit(a, b, t, 1) for a, b in zip(low.reshape(-1, len(t)), high.reshape(-1, len(t)))]


def reciprocal(folder: Path) -> list:
    """1/x on [1, 2), in units of 2^-40; t has 16 bits."""
    return binade(load(folder, "rcp", 127), 40, bits=16)


def root(folder: Path) -> list:
    """√x on [1, 4), in units of 2^-40."""
    return binade(load(folder, "sqrt", 127), 40) + binade(load(folder, "sqrt", 128), 40)


def reciprocal_root(folder: Path) -> list:
    """1/√x on [1, 4), in units of 2^-40. The result for 1 is exact by a rule of its own."""
    first = load(folder, "rsqrt", 127)
    first[0] = first[1] + 1
    return binade(first, 40) + binade(load(folder, "rsqrt", 128), 40)


# Lower bits of the argument that don't matter, for tanh on [2^-8, 2^-7), [2^-7, 2^-6), ... [4, 8).
TANH_IGNORED = (6, 6, 6, 5, 5, 4, 4, 4, 3, 2, 3)


def tanh(folder: Path) -> list:
    """tanh(x) on [2^-8, 8), in units of 2^-46."""
    found = []
    for upper, ignored in enumerate(TANH_IGNORED, 119):
        found += binade(load(folder, "tanh", upper), 46, ignored, step=128)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="what capture.py wrote")
    parser.add_argument("to", type=Path)
    arguments = parser.parse_args()
    tables = {
        "kExp2": exp2(arguments.folder),
        "kLog2": log2(arguments.folder),
        "kReciprocal": reciprocal(arguments.folder),
        "kRoot": root(arguments.folder),
        "kReciprocalRoot": reciprocal_root(arguments.folder),
        "kTanh": tanh(arguments.folder),
    }
    text = "// Written by tools/emulator/conformance/tables.py from an H200's results.\n"
    for name, segments in tables.items():
        text += f"inline constexpr Segment {name}[{len(segments)}] = {{\n"
        text += "".join("    {%d, %d, %d},\n" % segment for segment in segments) + "};\n"
    arguments.to.write_text(text)


if __name__ == "__main__":
    main()
