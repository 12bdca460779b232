"""Training speed of the assembled engine beside a Triton kernel.

Both get the same data, each in its natural layout: the engine [B,S,H,dim], the peer [B,H,S,dim]. TFLOP/s counts the
operation's own work, 2 (2D + R) a visible pair forward and 2 (5D + 3R) backward, whatever a kernel recomputes. The
results of both are compared before they are timed.
"""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from types import ModuleType
from typing import Any

import torch

from .shapes import Shape
from .timing import Timing, burst, sustained
from .triton_peer import Peer

TOLERANCE = 0.02  # relative L2 distance of the two results, each about 0.003 from float64


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


def measure_all(
    package: ModuleType, shapes: Iterable[Shape], idle: float, seconds: float
) -> tuple[list[dict], list[str]]:
    """Rows of all shapes, and what was wrong with those whose results disagree.

    idle: seconds of idle GPU before a burst call. seconds: of sustained launches for each step; 0 leaves them out.
    """
    rows, failures = [], []
    for shape in shapes:
        print(f"timing {shape.name}", file=sys.stderr, flush=True)
        try:
            rows += measure(package, shape, idle, seconds)
        except RuntimeError as error:
            failures.append(str(error))
        torch.cuda.empty_cache()
    return rows, failures


def measure(package: ModuleType, shape: Shape, idle: float, seconds: float) -> list[dict]:
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
        timings = {"burst": burst(contenders, idle)}
        if seconds:
            timings["sustained"] = sustained(contenders, seconds)
        for regime, pair in timings.items():
            rows.append(_row(shape, step, regime, flops, pair) | {"peer_tiles": peer.tiles()})
    ours.engine.close()
    return rows


def _row(shape: Shape, step: str, regime: str, flops: int, timings: dict[str, Timing]) -> dict:
    row: dict = {"shape": asdict(shape), "name": shape.name, "step": step, "regime": regime}
    for name, timing in timings.items():
        row[name] = asdict(timing) | {"tflops": flops / timing.milliseconds / 1e9}
    return row | {"ratio": timings["peer"].milliseconds / timings["ours"].milliseconds}
