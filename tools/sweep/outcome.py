"""What a sweep came to: the points as the rounds rank them, and the fastest one as the confirming rounds judge it.

The fastest of many points owes part of its margin to luck, in just the rounds that made it the fastest. So it is judged
by other rounds, in which it and the incumbent alone take turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from .state import State
from .summary import Result, summarise
from .sweep import SweepError


@dataclass(frozen=True)
class Outcome:
    """timed: all points, the fastest first. confirming: the fastest and the incumbent in the confirming rounds; empty
    if there are none yet, or if the incumbent is the fastest."""

    timed: list[Result]
    confirming: list[Result]

    @property
    def best(self) -> Result:
        """The fastest point, in the rounds that picked it."""
        return self.timed[0]

    @property
    def confirmed(self) -> Result | None:
        """The fastest point in the confirming rounds, which decide."""
        return next((result for result in self.confirming if result.point == self.best.point), None)


def outcome_of(state: State) -> Outcome:
    """What the rounds measured so far say. Errors: SweepError if there are none, or the confirming ones aren't of the
    fastest point."""
    rounds = state.rounds.measured()
    if not rounds:
        raise SweepError(f"{state.folder}: no round is measured yet; the time stage does it, where there is a GPU")
    timed = summarise(rounds, state.incumbent)
    confirming = state.confirming.measured()
    pair = {state.incumbent, timed[0].point}
    if any(times.keys() != pair for times in confirming):
        raise SweepError(f"{state.folder}/confirming: expected rounds of {', '.join(sorted(pair))} alone; remove it")
    return Outcome(timed, summarise(confirming, state.incumbent) if confirming else [])


def to_confirm(state: State) -> str | None:
    """The point that the confirming rounds judge: the fastest of all rounds. None if it is the incumbent."""
    best = outcome_of(state).best.point
    return None if best == state.incumbent else best


def still_to_time(state: State) -> str | None:
    """How many rounds of which kind the time stage has still to measure, in words; None if it is done."""
    if missing := len(state.rounds.missing):
        return f"{missing} of {state.rounds.count} rounds"
    missing = len(state.confirming.missing)
    return f"{missing} of {state.confirming.count} confirming rounds" if missing and to_confirm(state) else None
