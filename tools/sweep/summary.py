"""What some rounds say.

Points are compared within a round, where they ran one after the other: a point's speed-up in a round is the incumbent's
time over its own, the geometric mean over the cases. Its margin is the median speed-up over all rounds, less 1; its
spread is half the interquartile range of those speed-ups.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SPREAD = "half the interquartile range of a round's speed-up over the incumbent"

Round = Mapping[str, Mapping[str, float]]  # point -> case -> milliseconds


@dataclass(frozen=True)
class Result:
    """One timed point. milliseconds: the geometric mean of its medians; medians: case -> milliseconds.

    margin: 0.03 is 3 % faster than the incumbent. The incumbent's own margin and spread are 0.
    """

    point: str
    milliseconds: float
    medians: dict[str, float]
    margin: float
    spread: float

    @property
    def is_better(self) -> bool:
        """Whether it beats the incumbent by more than the rounds scatter."""
        return self.margin > self.spread

    @property
    def figures(self) -> str:
        """Margin and spread, in words."""
        return f"margin {100 * self.margin:.2f} %, spread {100 * self.spread:.2f} %"

    def __str__(self) -> str:
        """The point with its margin and spread."""
        return f"{self.point}: {self.figures}"


def summarise(rounds: Sequence[Round], incumbent: str) -> list[Result]:
    """A result for each point of the rounds, the fastest first. rounds: at least one."""
    results = [_result(rounds, point, incumbent) for point in rounds[0]]
    return sorted(results, key=lambda result: -result.margin)


def _result(rounds: Sequence[Round], point: str, incumbent: str) -> Result:
    medians = {case: statistics.median(times[point][case] for times in rounds) for case in rounds[0][point]}
    speedups = [
        statistics.geometric_mean(times[incumbent][case] / times[point][case] for case in medians) for times in rounds
    ]
    low, middle, high = statistics.quantiles(speedups, n=4, method="inclusive") if len(speedups) > 1 else speedups * 3
    return Result(point, statistics.geometric_mean(medians.values()), medians, middle - 1, (high - low) / 2)
