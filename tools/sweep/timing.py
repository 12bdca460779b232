"""The time stage: checks every compiled point, then times the right ones in interleaved rounds.

What a GPU does is behind `Bench`, so that everything else here runs anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from .progress import Progress
from .state import COMPILED, State
from .sweep import Case, SweepError


class Bench(Protocol):
    """Runs the points of a sweep."""

    def machine(self) -> dict[str, str]:
        """What times depend on: GPU, driver and so on."""

    def check(self, point: str) -> str | None:
        """What is wrong with a point's results, or None."""

    def require_usable(self) -> None:
        """Errors: MachineError if nothing can run any more, as after a kernel that read beyond its memory."""

    def milliseconds(self, point: str, case: Case) -> float:
        """One turn of a point on a case."""


def time_points(state: State, bench: Bench) -> None:
    """Does what is left of the stage. Errors: SweepError if the incumbent's results are wrong; MachineError."""
    state.begin_timing(bench.machine())
    _check(state, bench)
    if reason := state.checks[state.incumbent]:
        raise SweepError(f"the plan's own tile, {state.incumbent}: {reason}")
    _time(state, bench)


def order(points: Sequence[str], number: int) -> list[str]:
    """The points in the order of a round: shuffled, the same way whenever that round is measured."""
    return random.Random(number).sample(points, len(points))


def _check(state: State, bench: Bench) -> None:
    todo = [point for point in state.with_state(COMPILED) if point not in state.checks]
    with Progress("checking", len(todo)) as progress:
        for point in todo:
            reason = bench.check(point)
            state.record_check(point, reason)
            bench.require_usable()
            progress.advance(point + (f" is wrong: {reason}" if reason else ""))


def _time(state: State, bench: Bench) -> None:
    points, cases, rounds = state.survivors, state.sweep.cases, state.missing_rounds
    with Progress("timing", len(rounds) * len(cases) * len(points)) as progress:
        for number in rounds:
            times: dict[str, dict[str, float]] = {point: {} for point in points}
            for case in cases:
                for point in order(points, number):
                    times[point][case.name] = bench.milliseconds(point, case)
                    progress.advance(f"round {number + 1}")
            state.record_round(number, times)
