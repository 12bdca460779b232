"""Training speed of the assembled engine beside a Triton kernel, on six shapes.

Both get the same data, each in its natural layout: the engine [B,S,H,dim], the peer [B,H,S,dim]. TFLOP/s counts the
operation's own work, 2 (2D + R) a visible pair forward and 2 (5D + 3R) backward, whatever a kernel recomputes. The
results of both are compared before they are timed.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .assembled import load_submission
from .report import commit, machine, print_table, write_json
from .shapes import SHAPES, Shape
from .timing import Timing, burst, sustained
from .triton_peer import Peer

QUICK = (1, 4)  # indices of SHAPES
TOLERANCE = 0.02  # relative L2 distance of the two results, each about 0.003 from float64
COLUMNS = ("shape", "step, regime", "ours ms", "TFLOP/s", "SM MHz", "peer ms", "TFLOP/s", "SM MHz", "ours/peer")


class Ours:
    """The engine on fixed arrays [B,S,H,dim]."""

    def __init__(self, package: ModuleType, shape: Shape, inputs: list[torch.Tensor], do: torch.Tensor) -> None:
        config = {key: getattr(shape, key) for key in ("head_dim", "gate_dim", "q_heads", "kv_heads")}
        self.engine = package.build_engine({**config, "modes": ["training"]})
        self.inputs, self.do = inputs, do
        self.o = torch.empty_like(do)
        self.gradients = tuple(torch.empty_like(x) for x in inputs)
        self.saved: Any = None

    def forward(self) -> None:
        _, self.saved = self.engine.forward(*self.inputs, out=self.o)

    def backward(self) -> None:
        self.engine.backward(self.saved, self.do, out=self.gradients)


def make_inputs(shape: Shape) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Standard normal q, k, v, qg, kg and do in [B,S,H,dim]."""
    source = torch.Generator("cuda").manual_seed(0)

    def values(heads: int, dim: int) -> torch.Tensor:
        size = (shape.batch, shape.length, heads, dim)
        return torch.randn(size, generator=source, device="cuda", dtype=torch.bfloat16)

    q, kv, d, r = shape.q_heads, shape.kv_heads, shape.head_dim, shape.gate_dim
    return [values(q, d), values(kv, d), values(kv, d), values(q, r), values(kv, r)], values(q, d)


def largest_difference(ours: Ours, peer: Peer) -> float:
    """The largest relative L2 distance between the two contenders' o and gradients."""
    pairs = zip((ours.o, *ours.gradients), (peer.o, *peer.gradients))
    distances = [((a.float() - b.transpose(1, 2).float()).norm() / b.float().norm()).item() for a, b in pairs]
    return max(distances) if all(d == d for d in distances) else float("nan")


def measure(package: ModuleType, shape: Shape, options: argparse.Namespace) -> list[dict]:
    """Rows of one shape, one for each step and regime. RuntimeError if the contenders disagree."""
    inputs, do = make_inputs(shape)
    ours = Ours(package, shape, inputs, do)
    peer = Peer(*(x.transpose(1, 2).contiguous() for x in (*inputs, do)))
    peer.compile()
    for contender in (ours, peer):
        contender.forward()
        contender.backward()
    difference = largest_difference(ours, peer)
    if not difference < TOLERANCE:
        raise RuntimeError(f"{shape.name}: results of engine and peer differ by {difference:.3g}, expected {TOLERANCE}")
    rows = []
    for step, flops in (("forward", shape.forward_flops), ("backward", shape.backward_flops)):
        contenders = {"ours": getattr(ours, step), "peer": getattr(peer, step)}
        timings = {"burst": burst(contenders, options.idle)}
        if not options.quick:
            timings["sustained"] = sustained(contenders, options.seconds)
        for regime, pair in timings.items():
            rows.append(_row(shape, step, regime, flops, pair) | {"peer_tiles": peer.tiles()})
    ours.engine.close()
    return rows


def _row(shape: Shape, step: str, regime: str, flops: int, timings: dict[str, Timing]) -> dict:
    row: dict = {"shape": asdict(shape), "name": shape.name, "step": step, "regime": regime}
    for name, timing in timings.items():
        row[name] = asdict(timing) | {"tflops": flops / timing.milliseconds / 1e9}
    return row | {"ratio": timings["peer"].milliseconds / timings["ours"].milliseconds}


def _cells(row: dict) -> list[str]:
    cells = [row["name"], f"{row['step']}, {row['regime']}"]
    for name in ("ours", "peer"):
        clock = row[name]["sm_mhz"]
        cells += f"{row[name]['milliseconds']:.3f}", f"{row[name]['tflops']:.0f}", f"{clock:.0f}" if clock else "-"
    return [*cells, f"{row['ratio']:.2f}"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="two shapes, burst only")
    parser.add_argument("--shapes", nargs="+", metavar="TEXT", help="only shapes whose name contains one of these")
    parser.add_argument("--idle", type=float, default=0.3, metavar="S", help="idle before a burst call (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.2, metavar="S", help="of sustained launches (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--commit", default=commit(), help="noted in the JSON (default: the work tree's)")
    return parser.parse_args()


def main() -> int:
    """0 if every chosen shape was timed, 1 if a shape's results disagree, 2 if there is nothing to run."""
    options = _arguments()
    shapes = [SHAPES[i] for i in QUICK] if options.quick else list(SHAPES)
    if options.shapes:
        shapes = [shape for shape in SHAPES if any(text in shape.name for text in options.shapes)]
    if not shapes or not torch.cuda.is_available():
        print("no CUDA device" if shapes else f"no shape matches; there are {', '.join(s.name for s in SHAPES)}")
        return 2
    package, where, rows, failures = load_submission(), machine(), [], []
    for shape in shapes:
        print(f"timing {shape.name}", file=sys.stderr, flush=True)
        try:
            rows += measure(package, shape, options)
        except RuntimeError as error:
            failures.append(str(error))
        torch.cuda.empty_cache()
    print_table(", ".join(f"{key} {value}" for key, value in where.items()), COLUMNS, [_cells(row) for row in rows])
    for failure in failures:
        print(failure)
    if options.json:
        protocol = {"idle_seconds": options.idle, "sustained_seconds": options.seconds}
        facts = {"commit": options.commit, **where, **protocol, "rows": rows, "failures": failures}
        write_json(options.json, facts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
