"""The apply stage: the fastest point's tile into the plan file, if the confirming rounds bear it out."""

from __future__ import annotations

from pathlib import Path

from .compiling import check_plan
from .plan_text import with_numbers
from .outcome import outcome_of, still_to_time
from .report import facts_of
from .state import State, write_json, write_whole
from .sweep import SweepError, read_json

RECORDS = Path("docs", "results", "sweeps")  # in the project


class Refused(RuntimeError):
    """The winner isn't clearly better; the text has both numbers."""


def apply(state: State, root: Path) -> list[Path]:
    """Writes the winner's tile into the project's plan, and what was measured to docs/results/sweeps/NAME.json.

    root: the project. Returns the two files. Errors: Refused, and then nothing is written; SweepError if rounds are
    missing, or the plan's tile isn't the one that the sweep started from.
    """
    if missing := still_to_time(state):
        raise SweepError(f"{state.folder}: {missing} are still to be timed")
    check_plan(state, root)
    outcome = outcome_of(state)
    best = outcome.confirmed
    if best is None:
        raise Refused(f"no point is faster than the incumbent, {state.incumbent}")
    if not best.is_better:
        raise Refused(f"{best} in the confirming rounds; the margin must exceed the spread")
    plan, record = root / state.sweep.plan, root / RECORDS / f"{state.sweep.name}.json"
    # The record first: a tile that nobody can account for is worse than a record without its tile.
    write_json(record, facts_of(state, outcome))
    tile = state.points[best.point]
    write_whole(plan, with_numbers(plan.read_text(), _place(plan, state), {f: tile[f] for f in state.sweep.tile}))
    return [plan, record]


def _place(plan: Path, state: State) -> tuple[str | int, ...]:
    """The path of the tile in the plan's JSON."""
    operation = state.sweep.operation
    is_list = isinstance(read_json(plan)["kernels"][operation], list)
    return "kernels", operation, *([state.sweep.variant] if is_list else []), "tile"
