"""The report stage: the table, and result.json, result.csv, result.png in the state folder."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tools.bench.report import print_table
from tools.needs import missing

from . import pack
from .dropped import counts, dropped
from .outcome import Outcome
from .state import COMPILED, Rounds, State, write_json, write_whole
from .summary import SPREAD, Result

COLUMNS = ("point", "", "registers", "shared bytes", "median ms", "margin %", "spread %")


def resources(state: State, point: str) -> dict[str, int]:
    """Registers a thread and bytes of shared memory a block of a compiled point, the largest over its dtypes."""
    rows = pack.read_manifest(state.pack(point))["kernels"]
    return {
        "registers": max(row["registers"] for row in rows),
        "shared_bytes": max(row["shared_bytes"] + row["static_shared_bytes"] for row in rows),
    }


def facts_of(state: State, outcome: Outcome) -> dict:
    """All that a sweep found, as data; docs/sweep.md lists the fields."""
    sweep, confirmed = state.sweep, outcome.confirmed
    return {
        "sweep": sweep.name,
        "plan": sweep.plan,
        "operation": sweep.operation,
        "commit": state.commit,
        **{field: value for field, value in state.machine.items() if field != "kernels"},
        "rounds": len(state.rounds.measured()),
        "confirming_rounds": len(state.confirming.measured()),
        "incumbent": state.points[state.incumbent],
        "best": state.points[outcome.best.point],
        "margin": confirmed and confirmed.margin,
        "spread": confirmed and confirmed.spread,
        "spread_is": SPREAD,
        "confirmed": [{"point": result.point, **_figures(result)} for result in outcome.confirming],
        "timed": [
            {"point": result.point, **resources(state, result.point), **_figures(result)} for result in outcome.timed
        ],
        "dropped": {point: f"{became}: {reason}" for point, (became, reason) in dropped(state).items()},
    }


def show(state: State, outcome: Outcome) -> None:
    """Prints the table, the fastest point first; then whether that is confirmed, and why points were dropped."""
    rows = []
    for result in outcome.timed:
        is_incumbent = result.point == state.incumbent
        facts = resources(state, result.point)
        rows.append(
            [
                result.point,
                "incumbent" if is_incumbent else "",
                f"{facts['registers']}",
                f"{facts['shared_bytes']}",
                f"{result.milliseconds:.4f}",
                "" if is_incumbent else f"{100 * result.margin:+.2f}",
                "" if is_incumbent else f"{100 * result.spread:.2f}",
            ]
        )
    print_table(f"{title(state)}, {_progress(state.rounds)} rounds", COLUMNS, rows)
    if outcome.best.point == state.incumbent:
        print("no point is faster than the incumbent")
    else:
        print(f"best is {outcome.best}")
        print(f"in {_progress(state.confirming)} confirming rounds: {_verdict(outcome.confirmed)}")
    show_dropped(state)


def _progress(rounds: Rounds) -> str:
    return f"{len(rounds.measured())} of {rounds.count}"


def _verdict(confirmed: Result | None) -> str:
    if confirmed is None:
        return "not confirmed yet"
    return f"{confirmed.figures}; {'more' if confirmed.is_better else 'no more'} than they scatter"


def show_dropped(state: State) -> None:
    """Prints how many points there are, how many were dropped for which kind of reason, and where all reasons are."""
    gone = dropped(state)
    if not gone:
        print(f"{len(state.points)} points, none dropped")
        return
    print(f"{len(state.points)} points, {len(gone)} dropped, for reasons such as:")
    for line in counts(state):
        print(f"  {line}")
    print(f"all reasons: {state.folder}/points.json{' and checks.json' if any(state.checks.values()) else ''}")


def title(state: State) -> str:
    """What was swept, and where it was timed."""
    gpu = f", {state.machine['gpu']}" if state.machine else ""
    return f"{state.sweep.name}: {state.sweep.operation} of {Path(state.sweep.plan).stem}{gpu}"


def write(state: State, outcome: Outcome) -> list[Path]:
    """Writes result.json, result.csv and, where matplotlib is installed, result.png; returns their paths."""
    files = [state.folder / f"result.{kind}" for kind in ("json", "csv", "png")]
    write_json(files[0], facts_of(state, outcome))
    write_whole(files[1], csv_text(state, outcome))
    if missing("matplotlib"):
        return files[:-1]
    from .plot import write_plot

    write_plot(files[2], title(state), outcome, state.incumbent)
    return files


def csv_text(state: State, outcome: Outcome) -> str:
    """A row for each point of the sweep, the timed ones first; what a point has no value for is empty."""
    cases = [case.name for case in state.sweep.cases]
    tile = list(state.start)
    columns = ["point", *tile, "state", "reason", "registers", "shared_bytes", "milliseconds", "margin", "spread"]
    columns += ["confirmed_margin", "confirmed_spread"]
    text = io.StringIO()
    out = csv.DictWriter(text, [*columns, *(f"milliseconds {case}" for case in cases)], lineterminator="\n")
    out.writeheader()
    gone, timed = dropped(state), {result.point: result for result in outcome.timed}
    for point in [*timed, *(point for point in state.points if point not in timed)]:
        row: dict = {"point": point, **state.points[point]}
        row["state"], row["reason"] = gone.get(point, ("timed" if point in timed else "not timed", ""))
        if point in state.with_state(COMPILED):
            row |= resources(state, point)
        if point in timed:
            figures = _figures(timed[point])
            medians = figures.pop("medians")
            row |= figures | {f"milliseconds {case}": value for case, value in medians.items()}
        if outcome.confirmed and point == outcome.best.point:
            row |= {"confirmed_margin": outcome.confirmed.margin, "confirmed_spread": outcome.confirmed.spread}
        out.writerow(row)
    return text.getvalue()


def _figures(result: Result) -> dict:
    return {field: value for field, value in vars(result).items() if field != "point"}
