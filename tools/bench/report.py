"""Where a timing was taken, its table and its JSON."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .assembled import REPOSITORY


TIMING_COLUMNS = (
    "shape", "step, regime", "ours ms", "TFLOP/s", "SM MHz", "peer ms", "TFLOP/s", "SM MHz", "ours/peer"
)  # fmt: skip


def timing_cells(row: dict) -> list[str]:
    """The cells of TIMING_COLUMNS for a row of portable.measure."""
    cells = [row["name"], f"{row['step']}, {row['regime']}"]
    for name in ("ours", "peer"):
        clock = row[name]["sm_mhz"]
        cells += f"{row[name]['milliseconds']:.3f}", f"{row[name]['tflops']:.0f}", f"{clock:.0f}" if clock else "-"
    return [*cells, f"{row['ratio']:.2f}"]


def commit() -> str | None:
    """The repository's commit, with "+" if the tree differs from it; None outside a git work tree."""
    try:
        git = ["git", "-C", str(REPOSITORY)]
        name = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
        return name + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> dict[str, str]:
    """GPU, driver and the versions of what the peers are written in."""
    import torch
    import triton

    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "torch": torch.__version__,
        "triton": triton.__version__,
    }


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose first two columns are words and the others numbers; drawn by rich if it is installed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(map(len, column)) for column in zip(columns, *rows)]
        print(title)
        for row in (columns, *rows):
            cells = (c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
            print("  " + "  ".join(cells).rstrip())
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < 2 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=max(130, Console().width)).print(table)


def write_json(path: Path, facts: dict) -> None:
    """Writes facts, making the folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=2) + "\n")
