"""Whether results are right: the project's accuracy rule against float64, sequence by sequence, in numpy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tools.reference.accuracy import floors, judge
from tools.reference.attention import GRADIENTS, Inputs, backward, eager, forward


@dataclass(frozen=True)
class Expected:
    """One array that a call must have written: in float64, by eager code, and the floor of its error."""

    name: str
    reference: np.ndarray
    eager: np.ndarray
    floor: float


def expected_output(x: Inputs, dtype: str) -> list[Expected]:
    """What forward, prefill or decode must give for one sequence."""
    return [Expected("o", forward(x), forward(x, eager(dtype)), floors(dtype, x)["o"])]


def expected_gradients(x: Inputs, do: np.ndarray, dtype: str) -> list[Expected]:
    """What backward must give for one sequence: dq, dk, dv, dqg, dkg."""
    allowed = floors(dtype, x, do)
    pairs = zip(GRADIENTS, backward(x, do), backward(x, do, eager(dtype)))
    return [Expected(name, right, by_eager, allowed[name]) for name, right, by_eager in pairs]


def first_wrong(expected: Iterable[Sequence[Expected]], results: Iterable[Sequence[np.ndarray]]) -> str | None:
    """Holds each sequence's arrays against what they must be; the first verdict that fails, or None."""
    for sequence, arrays in zip(expected, results, strict=True):
        for right, array in zip(sequence, arrays, strict=True):
            verdict = judge(right.name, array, right.eager, right.reference, right.floor)
            if not verdict.ok:
                return str(verdict)
    return None
