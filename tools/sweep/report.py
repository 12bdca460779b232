"""The report stage: the table, and result.json, result.csv, result.png in the state folder."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tools.bench.report import print_table

from . import pack
from .dropped import counts, dropped
from .state import COMPILED, State, write_json, write_whole
from .summary import SPREAD, Result, summarise
from .sweep import SweepError

COLUMNS = ("point", "", "registers", "shared bytes", "median ms", "margin %", "spread %")


def results_of(state: State) -> list[Result]:
    """The timed points, the fastest first. Errors: SweepError if no round is measured."""
    rounds = state.rounds()
    if not rounds:
        raise SweepError(f"{state.folder}: no round is measured yet; the time stage does it, where there is a GPU")
    return summarise(rounds, state.incumbent)


def resources(state: State, point: str) -> dict[str, int]:
    """Registers a thread and bytes of shared memory a block of a compiled point, the largest over its dtypes."""
    rows = pack.read_manifest(state.pack(point))["kernels"]
    return {
        "registers": max(row["registers"] for row in rows),
        "shared_bytes": max(row["shared_bytes"] + row["static_shared_bytes"] for row in rows),
    }


def facts_of(state: State, results: list[Result]) -> dict:
    """All that a sweep found, as data; docs/sweep.md lists the fields."""
    sweep, best = state.sweep, results[0]
    return {
        "sweep": sweep.name,
        "plan": sweep.plan,
        "operation": sweep.operation,
        "commit": state.commit,
        **{field: value for field, value in state.machine.items() if field != "kernels"},
        "rounds": len(state.rounds()),
        "incumbent": state.points[state.incumbent],
        "best": state.points[best.point],
        "margin": best.margin,
        "spread": best.spread,
        "spread_is": SPREAD,
        "timed": [{"point": result.point, **resources(state, result.point), **_figures(result)} for result in results],
        "dropped": {point: f"{became}: {reason}" for point, (became, reason) in dropped(state).items()},
    }


def show(state: State, results: list[Result]) -> None:
    """Prints the table, the fastest point first; then whether it may be applied, and why points were dropped."""
    rows = []
    for result in results:
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
    print_table(f"{title(state)}, {len(state.rounds())} of {state.sweep.rounds} rounds", COLUMNS, rows)
    best = results[0]
    if best.point == state.incumbent:
        print("no point is faster than the incumbent")
    else:
        print(f"best is {best}; {'more' if best.is_better else 'no more'} than the rounds scatter")
    show_dropped(state)


def show_dropped(state: State) -> None:
    """Prints how many points there are, and how many were dropped for which reason."""
    gone = dropped(state)
    print(f"{len(state.points)} points, {len(gone)} dropped:" if gone else f"{len(state.points)} points, none dropped")
    for line in counts(state):
        print(f"  {line}")


def title(state: State) -> str:
    """What was swept, and where it was timed."""
    gpu = f", {state.machine['gpu']}" if state.machine else ""
    return f"{state.sweep.name}: {state.sweep.operation} of {Path(state.sweep.plan).stem}{gpu}"


def write(state: State, results: list[Result]) -> list[Path]:
    """Writes result.json, result.csv and, where matplotlib is installed, result.png; returns their paths."""
    files = [state.folder / f"result.{kind}" for kind in ("json", "csv", "png")]
    write_json(files[0], facts_of(state, results))
    write_whole(files[1], csv_text(state, results))
    try:
        from .plot import write_plot
    except ImportError:
        return files[:-1]
    write_plot(files[2], title(state), results, state.incumbent)
    return files


def csv_text(state: State, results: list[Result]) -> str:
    """A row for each point of the sweep, the timed ones first; what a point has no value for is empty."""
    cases = [case.name for case in state.sweep.cases]
    tile = list(state.start)
    columns = ["point", *tile, "state", "reason", "registers", "shared_bytes", "milliseconds", "margin", "spread"]
    text = io.StringIO()
    out = csv.DictWriter(text, [*columns, *(f"milliseconds {case}" for case in cases)], lineterminator="\n")
    out.writeheader()
    gone, timed = dropped(state), {result.point: result for result in results}
    for point in [*timed, *(point for point in state.points if point not in timed)]:
        row: dict = {"point": point, **state.points[point]}
        row["state"], row["reason"] = gone.get(point, ("timed" if point in timed else "not timed", ""))
        if point in state.with_state(COMPILED):
            row |= resources(state, point)
        if point in timed:
            figures = _figures(timed[point])
            medians = figures.pop("medians")
            row |= figures | {f"milliseconds {case}": value for case, value in medians.items()}
        out.writerow(row)
    return text.getvalue()


def _figures(result: Result) -> dict:
    return {field: value for field, value in vars(result).items() if field != "point"}
