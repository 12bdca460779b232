"""What a grading found, for people and as JSON."""

from __future__ import annotations

from typing import Any

from tools.bench.floors import Datasheet

from .bench import Result
from .check import Outcome
from .score import combine, score
from .trace import MEBIBYTE

SHOWN = 4  # failures of a trace that are printed; the JSON has all


def print_heading() -> None:
    """The line over the outcomes."""
    print(f"{'':8} {'trace':28} {'':4} {'error/allowed':>13} {'held MiB':>9} {'limit MiB':>9} {'seconds':>7}")


def print_outcome(number: int, count: int, outcome: Outcome) -> None:
    """One trace: a line, and what was wrong."""
    error = "-" if outcome.worst is None else f"{outcome.worst:.2f}"
    held, limit = (each / MEBIBYTE for each in (outcome.peak_bytes, outcome.trace.limit()))
    print(
        f"[{number:2}/{count:2}]  {outcome.trace.name:28} {'ok' if outcome.ok else 'FAIL':4} {error:>13} "
        f"{held:9.1f} {limit:9.1f} {outcome.seconds:7.1f}",
        flush=True,
    )
    for failure in outcome.failures[:SHOWN]:
        print(f"{'':9}{failure}")
    if len(outcome.failures) > SHOWN:
        print(f"{'':9}and {len(outcome.failures) - SHOWN} more")


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """One trace's outcome as data."""
    return {
        "trace": outcome.trace.name,
        "ok": outcome.ok,
        "failures": outcome.failures,
        "error_over_allowed": outcome.worst,
        "peak_bytes": outcome.peak_bytes,
        "memory_limit_bytes": outcome.trace.limit(),
        "seconds": outcome.seconds,
    }


BENCH_COLUMNS = ("workload", "ms", "starter ms", "speedup", "peer ms", "over peer", "floor ms", "of floor")


def bench_row(result: Result, sheet: Datasheet | None) -> dict[str, Any]:
    """One workload's figures: seconds of each contender, speedup over the starter and the peer, fraction of the
    floor."""
    engine, starter, peer = (result.latency(name) for name in ("engine", "starter", "peer"))
    floor = result.cost.floor_ms(sheet) if sheet else None
    return {
        "workload": result.workload.name,
        "stratum": result.workload.stratum,
        "seconds": {name: each.seconds for name, each in result.contenders.items()},
        "failures": {name: each.failures for name, each in result.contenders.items() if each.failures},
        "flops": result.cost.flops,
        "bytes": result.cost.bytes,
        "engine_ms": engine and 1e3 * engine,
        "starter_ms": starter and 1e3 * starter,
        "peer_ms": peer and 1e3 * peer,
        "floor_ms": floor,
        "speedup": starter / engine if starter and engine else None,
        "speedup_over_peer": peer / engine if peer and engine else None,
        "fraction_of_floor": floor / (1e3 * engine) if floor and engine else None,
    }


def bench_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Latencies and speedups combined by stratum, mode and all, and the score; 0 if a workload has no engine's time."""
    strata = {row["workload"]: row["stratum"] for row in rows}
    combined = {}
    for name in ("engine", "starter", "peer"):
        latencies = {row["workload"]: row[f"{name}_ms"] for row in rows}
        combined[name] = combine(latencies, strata) if all(latencies.values()) else None
    speedups = {
        other: {key: value / combined["engine"][key] for key, value in combined[other].items()}
        for other in ("starter", "peer")
        if combined["engine"] and combined[other]
    }
    overall = speedups.get("starter", {}).get("all")
    return {"milliseconds": combined, "speedups": speedups, "score": score(overall) if overall else 0.0}


def print_bench(rows: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    """The tables of a bench."""

    def figure(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:,.{digits}f}"

    widths = (20, 11, 12, 9, 11, 9, 11, 10)
    print(
        "".join(f"{name:<{w}}" if not i else f"{name:>{w}}" for i, (name, w) in enumerate(zip(BENCH_COLUMNS, widths)))
    )
    for row in rows:
        cells = [row["workload"], figure(row["engine_ms"], 3), figure(row["starter_ms"], 1), figure(row["speedup"], 1)]
        cells += figure(row["peer_ms"], 3), figure(row["speedup_over_peer"]), figure(row["floor_ms"], 3)
        cells.append(figure(row["fraction_of_floor"]))
        print("".join(f"{cell:<{w}}" if not i else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(cells, widths))))
        for name, failures in row["failures"].items():
            print(f"    {name} failed: {failures[0]}")
    print(f"\n{'speedup over':20}{'starter':>9}{'peer':>9}")
    for key in next(iter(summary["speedups"].values()), {}):
        values = (summary["speedups"].get(name, {}).get(key) for name in ("starter", "peer"))
        print(f"{key:20}" + "".join(f"{figure(value):>9}" for value in values))
    print(f"\nscore {summary['score']:.3f}")
