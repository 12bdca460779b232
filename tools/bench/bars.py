"""The bars that a run of the bench is held to: ours against its peers, and the peer against what it once reached.

A bar needs its rows: a shape or contender that wasn't run has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from .shapes import TRAINING

PEER_RATIO = 0.75  # of the Triton engine's speed, forward and backward, on each training shape
IMPORT_MS = 150
BUILD_MS = 400
PACK_MB = 15

# Of cuDNN's rate without the gate, sustained, on the GPU that the chip's own kernels were written on: the geometric
# mean over all training shapes, and each.
OWN_GPU = "H200"
UNGATED_RATIO = {"forward": (1.10, 1.05), "backward": (1.10, 1.0)}
OWN_TFLOPS = {
    "b1-h16/2-s16384-d128-r64": {"forward": 630},
    "b1-h16/4-s16384-d64-r32": {"forward": 470, "backward": 500},
    "b2-h16/4-s2048-d128-r64": {"forward": 530},
}

# A slow peer would flatter: TFLOP/s of plain Triton kernels on an H200, in bursts, and the part that must be reached.
PEER_GPU, PEER_PART = "H200", 0.90
PEER_TFLOPS = {
    "b2-h16/16-s2048-d64-r32": {"forward": 186, "backward": 155},
    "b2-h16/4-s2048-d128-r64": {"forward": 228, "backward": 153},
    "b1-h32/8-s4096-d64-r64": {"forward": 239, "backward": 189},
    "b1-h32/8-s8192-d128-r32": {"forward": 311, "backward": 263},
    "b1-h16/2-s16384-d128-r64": {"forward": 351, "backward": 288},
    "b1-h16/4-s16384-d64-r32": {"forward": 265, "backward": 247},
}


@dataclass(frozen=True)
class Bar:
    """A measured value and its goal. at_least: the value shall not be below the goal; else it shall be under it."""

    name: str
    value: float
    goal: float
    unit: str
    at_least: bool

    @property
    def reached(self) -> bool:
        """False for a NaN too."""
        return self.value >= self.goal if self.at_least else self.value < self.goal

    def __str__(self) -> str:
        verdict, relation = "reached" if self.reached else "missed", "at least" if self.at_least else "under"
        return f"{verdict:8} {self.name}: {self.value:.2f} {self.unit}, {relation} {self.goal:g}"


def bars(facts: dict) -> list[Bar]:
    """The bars of a run, from the facts that the bench writes. Where there are several figures, the worst counts."""
    found = [*_against_peer(facts["rows"]), *_of_peer(facts)]
    if OWN_GPU in facts["gpu"]:
        sustained = [row for row in facts["rows"] if row["regime"] == "sustained"]
        found += [*_against_ungated(sustained), *_of_ours(sustained)]
    for name, figure, goal in (("import", "import", IMPORT_MS), ("build_engine", "build", BUILD_MS)):
        slowest = max(row[figure] for row in facts["startup"])
        found.append(Bar(name, slowest, goal, "ms", False))
    found.append(Bar("pack", facts["pack_bytes"] / 1e6, PACK_MB, "MB", False))
    return found


def _against_peer(rows: list[dict]) -> Iterator[Bar]:
    ratios: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["operation"] in ("forward", "backward") and "triton" in row["ratios"]:
            key, ratio = (row["operation"], row["name"]), row["ratios"]["triton"]
            ratios[key] = min(ratio, ratios.get(key, ratio))
    for (operation, shape), ratio in ratios.items():
        yield Bar(f"{operation} of {shape}", ratio, PEER_RATIO, "of Triton's speed", True)


def _against_ungated(rows: list[dict]) -> Iterator[Bar]:
    for operation, (mean, least) in UNGATED_RATIO.items():
        ratios = {}
        for row in rows:
            if row["operation"] == operation and "cudnn" in row["ratios"]:
                ratios[row["name"]] = row["ratios"]["cudnn"]
                yield Bar(f"{operation} of {row['name']}", ratios[row["name"]], least, "of cuDNN's, ungated", True)
        if ratios.keys() >= {shape.name for shape in TRAINING}:
            value = prod(ratios.values()) ** (1 / len(ratios))
            yield Bar(f"{operation}, geometric mean", value, mean, "of cuDNN's, ungated", True)


def _of_ours(rows: list[dict]) -> Iterator[Bar]:
    for row in rows:
        goal = OWN_TFLOPS.get(row["name"], {}).get(row["operation"])
        if goal and "ours" in row["contenders"]:
            rate = row["contenders"]["ours"]["tflops"]
            yield Bar(f"{row['operation']} of {row['name']}", rate, goal, "TFLOP/s", True)


def _of_peer(facts: dict) -> Iterator[Bar]:
    if PEER_GPU not in facts["gpu"]:
        return
    for row in facts["rows"]:
        once = PEER_TFLOPS.get(row["name"], {}).get(row["operation"])
        if once and row["regime"] == "burst" and "triton" in row["contenders"]:
            part = row["contenders"]["triton"]["tflops"] / once
            yield Bar(f"Triton's {row['operation']} of {row['name']}", part, PEER_PART, "of what it once reached", True)
