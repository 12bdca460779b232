"""`python -m tools.bench.results FILE`: keeps a run of the bench as docs/results/portable.json and portable.md.

FILE is what `python -m tools.bench --json FILE` wrote. Every row of the page names commit, GPU and driver.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from .assembled import REPOSITORY
from .report import TIMING_COLUMNS, timing_cells, write_json

FOLDER = REPOSITORY / "docs" / "results"
SHORT_COMMIT = 10  # characters of its name

PAGE = """# Portable kernels

Written by `python -m tools.bench.results` from portable.json, which `python -m tools.bench` wrote in one run: torch
{torch}, triton {triton}.

## Training beside Triton

The peer is the same operation as plain autotuned Triton kernels (tools/bench/triton_peer.py); both took turns. TFLOP/s
counts the operation's own work. ours/peer is a ratio of speeds, above 1 where ours is the faster.

- burst: single calls, {idle_seconds:g} s of idle GPU before each
- sustained: continuous launches, {sustained_seconds:g} s in all

{timings}

## Start-up, pack, host time

Import and build_engine of all modes in processes without torch, medians; decode by the wall time of a call that waits
for nothing. A commit with a + had changes that weren't committed.

{others}

## Bars

{bars}
"""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A Markdown table; the first `words` columns are words and the others numbers."""
    rule = ["---" if i < words else "--:" for i in range(len(columns))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rule, *rows))


def page(facts: dict) -> str:
    """The page for a run. Errors: ValueError if the run doesn't say of which commit it is."""
    if not facts["commit"]:
        raise ValueError(f"commit: expected a name, got {facts['commit']!r}; run the bench with --commit")
    changed = "+" if facts["commit"].endswith("+") else ""
    where = [facts["commit"][:SHORT_COMMIT].removesuffix("+") + changed, facts["gpu"], facts["driver"]]
    names = ["commit", "GPU", "driver"]
    timings = [[*timing_cells(row)[:2], *where, *timing_cells(row)[2:]] for row in facts["rows"]]
    others = [
        [f"D {row['head_dim']}, R {row['gate_dim']}: {name}", *where, f"{row[figure]:.1f}", "ms"]
        for row in facts["startup"]
        for name, figure in (("import", "import"), ("build_engine", "build"), ("build_engine again", "build again"))
    ]
    others.append(["pack", *where, f"{facts['pack_bytes'] / 1e6:.2f}", "MB"])
    others += [
        [f"decode, batch {row['batch']}", *where, f"{row['microseconds']:.1f}", "us"] for row in facts["decode_host"]
    ]
    return PAGE.format(
        **{key: facts[key] for key in ("torch", "triton", "idle_seconds", "sustained_seconds")},
        timings=table([*TIMING_COLUMNS[:2], *names, *TIMING_COLUMNS[2:]], timings, 5),
        others=table(["what", *names, "value", "unit"], others, 4),
        bars="\n".join(f"- {line}" for line in (*facts["failures"], *(bar["bar"] for bar in facts["bars"]))),
    )


def keep(facts: dict, folder: Path) -> None:
    """Writes portable.json and portable.md to a folder. Errors: those of `page`, before anything is written."""
    text = page(facts)
    write_json(folder / "portable.json", facts)
    (folder / "portable.md").write_text(text)


def main() -> None:
    """Keeps the run that the command line names."""
    parser = argparse.ArgumentParser(prog="tools.bench.results", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE", help="what the bench wrote with --json")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to (%(default)s)")
    options = parser.parse_args()
    try:
        keep(json.loads(options.file.read_text()), options.folder)
    except ValueError as error:
        parser.error(f"{options.file}: {error}")


if __name__ == "__main__":
    main()
