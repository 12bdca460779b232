"""The accuracy rule: how far a result may lie from float64, given how far eager 16-bit code lies from it.

The largest absolute error is at most 2x the eager computation's plus a floor; the mean absolute error at most 1.5x
plus a tenth of it; every value is finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11}


@dataclass
class Verdict:
    """One result against its bounds; errors are absolute, in the result's own unit."""

    name: str
    shape: tuple[int, ...]
    largest: float
    largest_allowed: float
    mean: float
    mean_allowed: float
    finite: bool

    @property
    def ok(self) -> bool:
        """Whether the rule holds."""
        return self.finite and self.largest <= self.largest_allowed and self.mean <= self.mean_allowed


def judge(name: str, result: np.ndarray, eager: np.ndarray, reference: np.ndarray, floor: float) -> Verdict:
    """Applies the rule; three arrays of one shape."""
    error, yardstick = np.abs(result - reference), np.abs(eager - reference)
    return Verdict(
        name,
        result.shape,
        float(error.max()),
        2 * float(yardstick.max()) + floor,
        float(error.mean()),
        1.5 * float(yardstick.mean()) + floor / 10,
        bool(np.isfinite(result).all()),
    )


def floors(dtype: str, q, k, v, qg, kg, do=None) -> dict[str, float]:
    """The floor of o and, with `do`, of each gradient. Inputs [S,H,dim]."""
    unit = UNIT[dtype]
    result = {"o": unit * np.abs(v).max()}
    if do is not None:
        upstream = unit * np.linalg.norm(do, axis=-1).max() * np.linalg.norm(v, axis=-1).max()
        score, gate = upstream / np.sqrt(q.shape[-1]), upstream / np.sqrt(qg.shape[-1])
        result["dv"] = unit * np.abs(do).max()
        result["dq"], result["dk"] = score * np.abs(k).max(), score * np.abs(q).max()
        result["dqg"], result["dkg"] = gate * np.abs(kg).max(), gate * np.abs(qg).max()
    return {name: float(value) for name, value in result.items()}
