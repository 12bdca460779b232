"""`python -m tools.grade.results CHECK BENCH`: keeps a grading as docs/results/grade.json and grade.md.

CHECK and BENCH are the JSON files that `check` and `bench` wrote.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tools.bench.assembled import REPOSITORY
from tools.bench.report import write_json

FOLDER = REPOSITORY / "docs" / "results"


# Columns of a workload: heading, field of its row, digits shown.
FIGURES = (
    ("ms", "engine_ms", 3),
    ("starter ms", "starter_ms", 1),
    ("speedup", "speedup", 1),
    ("Triton ms", "peer_ms", 3),
    ("over Triton", "speedup_over_peer", 2),
    ("floor ms", "floor_ms", 3),
    ("of floor", "fraction_of_floor", 2),
)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def page(check: dict[str, Any], bench: dict[str, Any]) -> str:
    """The page of a grading."""
    passes = 2 * bench["rounds"]
    passed = sum(trace["ok"] for trace in check["traces"])
    where = bench["commit"][:10], bench["gpu"], bench["driver"]
    lines = [
        "# Grading",
        "",
        "Written by `python -m tools.grade.results` from what `make grade` wrote. Times are medians of whole traces,",
        f"seen from the controller, {passes} passes each; the three took turns on fresh data.",
        "Speedups are the other's time over the engine's. docs/grade.md says what is measured and how.",
        "",
        f"Audit: {passed} of {len(check['traces'])} traces passed. Score: {bench['score']:.3f}.",
        "",
        _row("workload", "commit", "GPU", "driver", *(heading for heading, *_ in FIGURES)),
        _row(*["---"] * 4, *["--:"] * len(FIGURES)),
    ]
    for row in bench["workloads"]:
        lines.append(_row(row["workload"], *where, *(_cell(row[name], digits) for _, name, digits in FIGURES)))
    lines += ["", _row("geometric mean of", "speedup over the starter", "over Triton"), _row("---", "--:", "--:")]
    starter, peer = (bench["speedups"].get(name, {}) for name in ("starter", "peer"))
    lines += [_row(key, _cell(value, 2), _cell(peer.get(key), 2)) for key, value in starter.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads both files, writes JSON and page."""
    parser = argparse.ArgumentParser(prog="tools.grade.results", description=__doc__)
    parser.add_argument("check", type=Path)
    parser.add_argument("bench", type=Path)
    options = parser.parse_args()
    check, bench = (json.loads(path.read_text()) for path in (options.check, options.bench))
    write_json(FOLDER / "grade.json", {"check": check, "bench": bench})
    (FOLDER / "grade.md").write_text(page(check, bench))


if __name__ == "__main__":
    main()
