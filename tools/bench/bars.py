"""The bars that a run of the bench is held to: ours against its peer, and the peer against what it once reached.

A bar needs its rows: a shape or contender that wasn't run has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PEER_RATIO = 0.75  # of the Triton engine's speed, forward and backward, on each training shape
IMPORT_MS = 150
BUILD_MS = 400
PACK_MB = 15

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


def _of_peer(facts: dict) -> Iterator[Bar]:
    if PEER_GPU not in facts["gpu"]:
        return
    for row in facts["rows"]:
        once = PEER_TFLOPS.get(row["name"], {}).get(row["operation"])
        if once and row["regime"] == "burst" and "triton" in row["contenders"]:
            part = row["contenders"]["triton"]["tflops"] / once
            yield Bar(f"Triton's {row['operation']} of {row['name']}", part, PEER_PART, "of what it once reached", True)
