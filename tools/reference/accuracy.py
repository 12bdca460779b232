"""The accuracy rule: how far a result may lie from float64, given how far eager 16-bit code lies from it.

The largest absolute error is at most 2x the eager computation's plus a floor; the mean absolute error at most 1.5x
plus a tenth of it; every value is finite where the reference is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attention import Inputs
from .bits import UNIT_ROUNDOFF


@dataclass(frozen=True)
class Verdict:
    """One result against its bounds; errors are absolute, in the result's own unit."""

    name: str
    shape: tuple[int, ...]
    largest: float
    largest_allowed: float
    mean: float
    mean_allowed: float
    not_finite: int

    @property
    def ok(self) -> bool:
        """Whether the rule holds."""
        return not self.not_finite and self.largest <= self.largest_allowed and self.mean <= self.mean_allowed

    @property
    def fraction(self) -> float:
        """The error as a fraction of what is allowed, the larger of largest and mean; 0 where nothing is
        allowed or wrong."""
        pairs = (self.largest, self.largest_allowed), (self.mean, self.mean_allowed)
        return max(error / allowed if allowed else float(error > 0) for error, allowed in pairs)

    def __str__(self) -> str:
        """What the rule says of it, in a line."""
        if self.not_finite:
            return f"{self.name}: {self.not_finite} of {np.prod(self.shape)} values aren't finite where they should be"
        return (
            f"{self.name}: largest error {self.largest:.2e} ({self.largest_allowed:.2e} allowed), "
            f"mean {self.mean:.2e} ({self.mean_allowed:.2e} allowed)"
        )


def judge(name: str, result: np.ndarray, eager: np.ndarray, reference: np.ndarray, floor: float) -> Verdict:
    """Applies the rule to three arrays of one shape. Where eager code isn't finite, any finite value will do."""
    if reference.size == 0:
        return Verdict(name, result.shape, 0.0, floor, 0.0, floor, 0)
    finite = np.isfinite(reference)
    not_finite = int((finite & ~np.isfinite(result)).sum())
    judged = finite & np.isfinite(eager)
    count = max(1, int(judged.sum()))
    with np.errstate(invalid="ignore"):
        error = np.where(judged, np.abs(result - reference), 0)
        yardstick = np.where(judged, np.abs(eager - reference), 0)
    return Verdict(
        name,
        result.shape,
        float(error.max()),
        2 * float(yardstick.max()) + floor,
        float(error.sum()) / count,
        1.5 * float(yardstick.sum()) / count + floor / 10,
        not_finite,
    )


def floors(dtype: str, x: Inputs, do: np.ndarray | None = None) -> dict[str, float]:
    """The floor of o and, with `do`, of each gradient, for inputs of one sequence or any stack of them; infinite
    elements of q, k, qg and kg don't count."""
    if x.v.size == 0:
        return {"o": 0.0}
    unit = UNIT_ROUNDOFF[dtype]
    result = {"o": unit * np.abs(x.v).max()}
    if do is not None:
        upstream = unit * _longest(do) * _longest(x.v)
        score, gate = upstream * x.q.shape[-1] ** -0.5, upstream * x.qg.shape[-1] ** -0.5
        result["dv"] = unit * np.abs(do).max()
        result["dq"], result["dk"] = score * _largest(x.k), score * _largest(x.q)
        result["dqg"], result["dkg"] = gate * _largest(x.kg), gate * _largest(x.qg)
    return {name: float(value) for name, value in result.items()}


def _largest(values: np.ndarray) -> float:
    """The largest magnitude of the finite values."""
    return float(np.where(np.isfinite(values), np.abs(values), 0).max())


def _longest(rows: np.ndarray) -> float:
    """The largest Euclidean norm along the last axis."""
    return float(np.sqrt((rows.astype(np.float64) ** 2).sum(axis=-1).max()))
