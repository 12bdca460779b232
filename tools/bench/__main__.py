"""`python -m tools.bench`: the portable kernels beside a Triton kernel, start-up, host time, and the bars they meet."""

import argparse
import sys
from pathlib import Path

import torch

from . import decode_host, portable, startup
from .assembled import load_submission
from .bars import bars
from .report import TIMING_COLUMNS, commit, machine, print_table, timing_cells, write_json
from .shapes import SHAPES, Shape

QUICK_SHAPES = (SHAPES[1], SHAPES[4])
QUICK_STRATA = startup.STRATA[-1:]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two shapes, burst only, start-up of one stratum")
    parser.add_argument("--shapes", nargs="+", metavar="TEXT", help="only shapes whose name contains one of these")
    parser.add_argument("--idle", type=float, default=0.3, metavar="S", help="idle before a burst call (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.2, metavar="S", help="of sustained launches (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--commit", default=commit(), help="noted in the JSON (default: the work tree's)")
    return parser.parse_args()


def _chosen_shapes(options: argparse.Namespace) -> list[Shape]:
    if options.shapes:
        return [shape for shape in SHAPES if any(text in shape.name for text in options.shapes)]
    return list(QUICK_SHAPES if options.quick else SHAPES)


def main() -> int:
    """0 if every bar is reached, 1 if one is missed or a shape's results disagree, 2 if there is nothing to run."""
    options = _arguments()
    shapes = _chosen_shapes(options)
    if not shapes or not torch.cuda.is_available():
        print("no CUDA device" if shapes else f"no shape matches; there are {', '.join(s.name for s in SHAPES)}")
        return 2
    package = load_submission()
    facts: dict = {"commit": options.commit, **machine()}
    title = ", ".join(f"{key} {value}" for key, value in facts.items())
    print("measuring start-up", file=sys.stderr, flush=True)
    facts["startup"] = startup.measure(QUICK_STRATA if options.quick else startup.STRATA)
    facts["pack_bytes"] = startup.pack_bytes()
    facts["decode_host"] = decode_host.measure(package)
    facts |= {"idle_seconds": options.idle, "sustained_seconds": 0 if options.quick else options.seconds}
    facts["rows"], facts["failures"] = portable.measure_all(package, shapes, options.idle, facts["sustained_seconds"])
    held = bars(facts)
    facts["bars"] = [{"bar": str(bar), "value": bar.value, "goal": bar.goal, "reached": bar.reached} for bar in held]

    print_table(title, TIMING_COLUMNS, [timing_cells(row) for row in facts["rows"]])
    startup.show(facts["startup"])
    print(f"Pack: {facts['pack_bytes'] / 1e6:.2f} MB")
    for row in facts["decode_host"]:
        print(f"Host time of a decode call, batch {row['batch']}: {row['microseconds']:.1f} us")
    for line in (*facts["failures"], *held):
        print(line)
    if options.json:
        write_json(options.json, facts)
    return 0 if not facts["failures"] and all(bar.reached for bar in held) else 1


if __name__ == "__main__":
    sys.exit(main())
