"""The bars that a run of the bench is held to."""

from __future__ import annotations

from dataclasses import dataclass

PEER_RATIO = 0.75  # of the Triton peer's speed, forward and backward, on each shape
IMPORT_MS = 150
BUILD_MS = 400
PACK_MB = 15


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
    ratios: dict[tuple[str, str], float] = {}
    for row in facts["rows"]:
        key = row["step"], row["name"]
        ratios[key] = min(row["ratio"], ratios.get(key, row["ratio"]))
    found = [
        Bar(f"{step} of {shape}", ratio, PEER_RATIO, "of the peer's speed", True)
        for (step, shape), ratio in ratios.items()
    ]
    for name, figure, goal in (("import", "import", IMPORT_MS), ("build_engine", "build", BUILD_MS)):
        slowest = max(row[figure] for row in facts["startup"])
        found.append(Bar(name, slowest, goal, "ms", False))
    found.append(Bar("pack", facts["pack_bytes"] / 1e6, PACK_MB, "MB", False))
    return found
