"""What a grading found, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .check import Outcome

SHOWN = 4  # failures of a trace that are printed; the JSON has all
MEBIBYTE = 1 << 20


def print_heading() -> None:
    """The line over the outcomes."""
    print(f"{'':8} {'trace':28} {'':4} {'error/allowed':>13} {'held MiB':>9} {'limit MiB':>9} {'seconds':>7}")


def print_outcome(number: int, count: int, outcome: Outcome) -> None:
    """One trace: a line, and what was wrong."""
    held, limit = (each / MEBIBYTE for each in (outcome.peak_bytes, outcome.trace.limit()))
    print(
        f"[{number:2}/{count:2}]  {outcome.trace.name:28} {'ok' if outcome.ok else 'FAIL':4} {outcome.worst:13.2f} "
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


def write_json(path: Path, facts: dict[str, Any]) -> None:
    """Writes facts, readable by people too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=1) + "\n")
