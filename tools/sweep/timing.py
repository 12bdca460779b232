"""The time stage: checks every compiled point, times the right ones in interleaved rounds, confirms the fastest.

What a GPU does is behind `Bench`, so that everything else here runs anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from .outcome import to_confirm
from .progress import Progress
from .state import COMPILED, Rounds, State
from .sweep import Case, SweepError


class Bench(Protocol):
    """Runs the points of a sweep."""

    def machine(self) -> dict[str, str]:
        """What times depend on: GPU, driver and so on."""

    def check(self, point: str) -> str | None:
        """What is wrong with a point's results, or None. Errors: MachineError if that can't be told."""

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
    _time("timing", state.rounds, state.survivors, order, state.sweep.cases, bench)
    if best := to_confirm(state):
        _time("confirming", state.confirming, [state.incumbent, best], turns, state.sweep.cases, bench)


def order(points: Sequence[str], number: int) -> list[str]:
    """The points in the order of a round: shuffled, the same way whenever that round is measured."""
    return random.Random(number).sample(points, len(points))


def turns(pair: Sequence[str], number: int) -> list[str]:
    """Two points in the order of a confirming round: each goes first in every other one."""
    return list(pair if number % 2 == 0 else reversed(pair))


def _check(state: State, bench: Bench) -> None:
    todo = [point for point in state.with_state(COMPILED) if point not in state.checks]
    with Progress("checking", len(todo)) as progress:
        for point in todo:
            reason = _check_one(state, bench, point)
            bench.require_usable()
            progress.advance(point + (f" is wrong: {reason}" if reason else ""))


def _check_one(state: State, bench: Bench, point: str) -> str | None:
    # If the process dies in here, the next one drops the point, since a kernel that hangs would hang every run. Not so
    # the incumbent: without it there is nothing to go on with.
    marked = point != state.incumbent
    if marked:
        state.begin_check(point)
    try:
        reason = bench.check(point)
    except BaseException:
        if marked:
            state.cancel_check(point)
        raise
    state.record_check(point, reason)
    return reason


def _time(
    title: str,
    rounds: Rounds,
    points: Sequence[str],
    ordered: Callable[[Sequence[str], int], list[str]],
    cases: Sequence[Case],
    bench: Bench,
) -> None:
    missing = rounds.missing
    with Progress(title, len(missing) * len(cases) * len(points)) as progress:
        for number in missing:
            times: dict[str, dict[str, float]] = {point: {} for point in points}
            for case in cases:
                for point in ordered(points, number):
                    times[point][case.name] = bench.milliseconds(point, case)
                    progress.advance(f"round {number + 1}")
            rounds.record(number, times)
