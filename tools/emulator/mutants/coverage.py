"""Which instructions of a kernel its scenario executes, and those of which it is known why it can't."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .instruction import contexts, instructions
from .scenarios import operation_of


@dataclass(frozen=True)
class Run:
    """Instructions next to each other of which none is executed. first, last: lines. context: of the first."""

    first: int
    last: int
    count: int
    context: str


@dataclass(frozen=True)
class Coverage:
    """executed: lines whose instruction was executed. all: how many instructions there are."""

    kernel: str
    executed: frozenset[int]
    all: int
    runs: tuple[Run, ...]

    @property
    def rate(self) -> float:
        """Executed instructions among all."""
        return len(self.executed) / self.all


def coverage(kernel: str, ptx: str, counts: dict[int, int]) -> Coverage:
    """From the executions of each line (Inspection.coverage)."""
    every = instructions(ptx.split("\n"))
    context = contexts(every)
    executed: set[int] = set()
    runs: list[list] = []
    before = None
    for one in every:
        # A warp comes to an instruction whose guard is false for all lanes, too, which the counts leave out.
        reached = one.guard and before and before.line in executed and before.opcode not in ("bra.uni", "ret")
        if counts.get(one.line, 0) or reached:
            executed.add(one.line)
        elif before and runs and runs[-1][-1] is before:
            runs[-1].append(one)
        else:
            runs.append([one])
        before = one
    return Coverage(kernel, frozenset(executed), len(every), tuple(
        Run(each[0].line, each[-1].line, len(each), context[each[0].line]) for each in runs
    ))  # fmt: skip


class Unreachable:
    """A file of groups of runs that no call of the engine executes, each with its reason in words.

    A run is known by its operation, the context of its first instruction and its number of instructions.
    """

    def __init__(self, path: Path):
        self._known = {}
        for group in json.loads(path.read_text()):
            for context, count in group["runs"]:
                self._known[group["operation"], context, count] = group["why"]

    def why(self, kernel: str, run: Run) -> str:
        """Why a run isn't executed; "" if that isn't known."""
        return self._known.get((operation_of(kernel), run.context, run.count), "")
