"""`python -m tools.bench.results FILE`: keeps a run of the bench as docs/results/NAME.json and NAME.md.

FILE is the results.json that `python -m tools.bench` wrote. Every row of the page names commit, GPU and driver.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from .assembled import REPOSITORY
from .report import HOST_COLUMNS, TIMING_COLUMNS, host_cells, missing_lines, timing_cells, write_json

FOLDER = REPOSITORY / "docs" / "results"
SHORT_COMMIT = 10  # characters of its name

NOTES = """- burst: three turns of 10 calls, {idle_seconds:g} s of idle GPU before each turn; sustained: continuous
  launches, {sustained_seconds:g} s in all; contenders took turns in both. Launch time stays out. SM MHz are ours.
- Of floor: the larger of FLOPs / dense rate and bytes / bandwidth, by the datasheet ({floor}), as a part of our time.
- The ratios are of rates, above 1 where ours is the faster. Triton is tools/bench/triton_engine, on the same data.
  cuDNN is ungated attention through torch's scaled_dot_product_attention, causal, same shapes, and counts its own
  FLOPs. Eager is the formula in PyTorch. Read is a plain read of the bytes that a decode call must move.
- TFLOP/s count the operation's own work, TB/s the bytes that must move. Before each decode call the L2 is filled with
  other data, as other layers would.
"""

PAGE = """# {name}

Written by `python -m tools.bench.results` from {name}.json, which `python -m tools.bench` wrote in one run of
{seconds} s on {date}: torch {torch}, triton {triton}. A commit with a + had changes that weren't committed.

## Operations beside their peers

{notes}
{timings}

{missing}

## Host time

Wall time on an idle GPU until a call returns, and until call and synchronise are done, medians; the bare launch is an
empty kernel by the driver's own call.

{host}

## Start-up and pack

Import and build_engine of all modes in processes without torch, medians.

{others}

## Bars

{bars}
"""


def notes(facts: dict) -> str:
    """How to read the timings, as Markdown."""
    sheet = facts["datasheet"]
    floor = f"{sheet['tflops']:g} TFLOP/s, {sheet['tbps']:g} TB/s" if sheet else "unknown for this GPU"
    return NOTES.format(idle_seconds=facts["idle_seconds"], sustained_seconds=facts["sustained_seconds"], floor=floor)


def startup_rows(facts: dict) -> list[tuple[str, str, str]]:
    """(what, value, unit) of start-up and pack."""
    figures = ("import", "import"), ("build_engine", "build"), ("build_engine again", "build again")
    found = [
        (f"D {row['head_dim']}, R {row['gate_dim']}: {name}", f"{row[figure]:.1f}", "ms")
        for row in facts["startup"]
        for name, figure in figures
    ]
    return [*found, ("pack", f"{facts['pack_bytes'] / 1e6:.2f}", "MB")]


def short_commit(facts: dict) -> str:
    """The commit's first characters, with its + if it has one. ValueError if the run doesn't name its commit."""
    if not facts["commit"]:
        raise ValueError(f"commit: expected a name, got {facts['commit']!r}; run the bench with --commit")
    return facts["commit"][:SHORT_COMMIT].removesuffix("+") + ("+" if facts["commit"].endswith("+") else "")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A Markdown table; the first `words` columns are words and the others numbers."""
    rule = ["---" if i < words else "--:" for i in range(len(columns))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rule, *rows))


def markdown(facts: dict, name: str) -> str:
    """The page for a run. Errors: those of short_commit."""
    where = [short_commit(facts), facts["gpu"], facts["driver"]]

    def with_place(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
        placed = [[*row[:words], *where, *row[words:]] for row in rows]
        return table([*columns[:words], "commit", "GPU", "driver", *columns[words:]], placed, words + 3)

    return PAGE.format(
        **{key: facts[key] for key in ("torch", "triton", "seconds", "date")},
        name=name,
        notes=notes(facts),
        timings=with_place(TIMING_COLUMNS, [timing_cells(row) for row in facts["rows"]], 2),
        missing="\n".join(f"- {line}" for line in missing_lines(facts["rows"])),
        host=with_place(HOST_COLUMNS, [host_cells(row) for row in facts["host"]], 2),
        others=with_place(("what", "value", "unit"), startup_rows(facts), 1),
        bars="\n".join(f"- {line}" for line in (*facts["failures"], *(bar["bar"] for bar in facts["bars"]))),
    )


def keep(facts: dict, folder: Path, name: str) -> None:
    """Writes NAME.json and NAME.md to a folder. Errors: those of `markdown`, before anything is written."""
    text = markdown(facts, name)
    write_json(folder / f"{name}.json", facts)
    (folder / f"{name}.md").write_text(text)


def main() -> None:
    """Keeps the run that the command line names."""
    parser = argparse.ArgumentParser(prog="tools.bench.results", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE", help="results.json of a run")
    parser.add_argument("--name", default="bench", help="of the two files (%(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to (%(default)s)")
    options = parser.parse_args()
    try:
        keep(json.loads(options.file.read_text()), options.folder, options.name)
    except ValueError as error:
        parser.error(f"{options.file}: {error}")


if __name__ == "__main__":
    main()
