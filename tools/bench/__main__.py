"""`python -m tools.bench`: each stratum's operations beside their peers, start-up, host time, and the bars they meet.

Writes results.json to a folder and renders the page of it there. The design: shapes.py says what is measured and how
much work it is, contenders.py and peers.py who measures up, timing.py how, measure.py makes rows of it, host.py and
startup.py the facts beside; bars.py, report.py, results.py, plots.py and page.py need nothing but the JSON.
"""

import argparse
import sys
import time
from pathlib import Path

from tools.needs import need

need("numpy", "torch", "triton")

import torch

from . import host, measure, page, startup
from .assembled import REPOSITORY, load_submission
from .bars import bars
from .floors import datasheet
from .report import (
    HOST_COLUMNS,
    TIMING_COLUMNS,
    commit,
    host_cells,
    machine,
    missing_lines,
    print_table,
    timing_cells,
    write_json,
)
from .shapes import QUICK, SHAPES

QUICK_STRATA = startup.STRATA[-1:]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="five shapes, burst only, start-up of one stratum")
    parser.add_argument("--shapes", nargs="+", metavar="TEXT", help="only shapes whose name contains one of these")
    parser.add_argument("--idle", type=float, default=0.2, metavar="S", help="idle before a burst (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.6, metavar="S", help="of sustained launches (%(default)s)")
    parser.add_argument(
        "--out", type=Path, default=REPOSITORY / "build" / "bench", metavar="FOLDER", help="for JSON, page and plots"
    )
    parser.add_argument("--commit", default=commit(), help="noted in the JSON (default: the work tree's)")
    return parser.parse_args()


def main() -> int:
    """0 if every bar is reached, 1 if one is missed or a shape is wrong, 2 if there is nothing to run."""
    options = _arguments()
    shapes = [s for s in SHAPES if any(text in s.name for text in options.shapes)] if options.shapes else SHAPES
    if options.quick and not options.shapes:
        shapes = QUICK
    if not shapes or not torch.cuda.is_available():
        print("no CUDA device" if shapes else f"no shape matches; there are {', '.join(s.name for s in SHAPES)}")
        return 2
    start = time.monotonic()
    facts = _measure(options, shapes)
    facts["seconds"] = round(time.monotonic() - start)
    _show(facts)
    write_json(options.out / "results.json", facts)
    print(page.render_if_possible(facts, options.out))
    return 0 if not facts["failures"] and all(bar["reached"] for bar in facts["bars"]) else 1


def _measure(options: argparse.Namespace, shapes: tuple) -> dict:
    """All facts of a run, as the JSON has them."""

    def say(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    package, sheet = load_submission(), datasheet(torch.cuda.get_device_name())
    facts: dict = {"commit": options.commit, "date": time.strftime("%Y-%m-%d"), **machine()}
    facts["datasheet"] = {"tflops": sheet.tflops, "tbps": sheet.tbps} if sheet else None
    say("measuring start-up")
    facts["startup"] = startup.measure(QUICK_STRATA if options.quick else startup.STRATA)
    facts["pack_bytes"] = startup.pack_bytes()
    say("compiling the Triton engine")
    measure.compile_peers(shapes)
    say("measuring host time")
    facts["host"] = host.measure(package)
    facts |= {"idle_seconds": options.idle, "sustained_seconds": 0 if options.quick else options.seconds}
    facts["rows"], facts["failures"] = measure.measure_all(package, shapes, options.idle, facts["sustained_seconds"])
    held = bars(facts)
    facts["bars"] = [{"bar": str(bar), "value": bar.value, "goal": bar.goal, "reached": bar.reached} for bar in held]
    return facts


def _show(facts: dict) -> None:
    where = ", ".join(f"{key} {facts[key]}" for key in ("commit", "gpu", "driver", "torch", "triton", "seconds"))
    print_table(where, TIMING_COLUMNS, [timing_cells(row) for row in facts["rows"]])
    print_table("Host time", HOST_COLUMNS, [host_cells(row) for row in facts["host"]])
    startup.show(facts["startup"])
    print(f"Pack: {facts['pack_bytes'] / 1e6:.2f} MB")
    for line in (*missing_lines(facts["rows"]), *facts["failures"], *(bar["bar"] for bar in facts["bars"])):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
