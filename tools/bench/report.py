"""Where a timing was taken, the tables of a run as text cells, and its JSON."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .assembled import REPOSITORY

PEERS = ("triton", "cudnn", "eager", "read")
PEER_NAMES = {"ours": "ours", "triton": "Triton", "cudnn": "cuDNN, no gate", "eager": "eager", "read": "plain read"}
TIMING_COLUMNS = ("shape", "operation, regime", "ours ms", "rate", "SM MHz", "of floor", "ours/Triton", "ours/cuDNN",
                  "ours/eager", "ours/read")  # fmt: skip
HOST_COLUMNS = ("call", "contender", "returns after us", "with synchronise us")


def timing_cells(row: dict) -> list[str]:
    """The cells of TIMING_COLUMNS for a row of measure.row; rate in TB/s for decode, else in TFLOP/s."""
    cells = [row["name"], f"{row['operation']}, {row['regime']}"]
    ours = row["contenders"].get("ours")
    if ours:
        clock, part = ours["sm_mhz"], ours["of_floor"]
        cells += f"{ours['milliseconds']:.3f}", rate(row, "ours"), f"{clock:.0f}" if clock else "-"
        cells.append(f"{100 * part:.0f} %" if part else "-")
    else:
        cells += "-", "-", "-", "-"
    return [*cells, *(f"{row['ratios'][peer]:.2f}" if peer in row["ratios"] else "-" for peer in PEERS)]


def rate(row: dict, contender: str) -> str:
    """A contender's TB/s in decode, else TFLOP/s, with the unit."""
    figures = row["contenders"][contender]
    return f"{figures['tbps']:.2f} TB/s" if row["operation"] == "decode" else f"{figures['tflops']:.0f} TFLOP/s"


def host_cells(row: dict) -> list[str]:
    """The cells of HOST_COLUMNS for a row of host.measure."""
    names = [row["call"], PEER_NAMES.get(row["contender"], row["contender"])]
    if "missing" in row:
        return [*names, "-", "-"]
    return [*names, f"{row['return_us']:.1f}", f"{row['wall_us']:.1f}"]


def missing_lines(rows: Sequence[dict]) -> list[str]:
    """Which contenders weren't there for which shapes, and why; each said once."""
    shapes: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for contender, reason in row["missing"].items():
            shapes.setdefault((contender, reason), {})[row["name"]] = None
    return [f"{PEER_NAMES[who]} left out of {', '.join(names)}: {why}" for (who, why), names in shapes.items()]


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
    Console(width=max(150, Console().width)).print(table)


def write_json(path: Path, facts: dict) -> None:
    """Writes facts, making the folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=2) + "\n")


def read_json(path: Path) -> dict:
    """The facts of a run. Errors: OSError; ValueError if they aren't a JSON object."""
    facts = json.loads(path.read_text())
    if not isinstance(facts, dict):
        raise ValueError(f"expected a JSON object, got {type(facts).__name__}")
    return facts
