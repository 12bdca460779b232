"""Counts of a kernel's instructions as tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .expectation import Expected
from .pipes import PIPES, mma_flops, opcodes_of, pipe_of

_SECTOR = 32  # bytes


@dataclass(frozen=True)
class Line:
    """One instruction: its place and opcode in the PTX, and what emulator_counters says of it."""

    line: int
    opcode: str
    executed: int
    lanes: int
    bytes: int
    sectors: int
    wavefronts: int
    least_wavefronts: int
    ticks: int


class KernelProfile:
    """What one kernel did.

    name: as in the pack. ptx: its text. counters: of emulator_counters. expected: from the plan; None if nobody says.
    """

    def __init__(self, name: str, ptx: str, counters: dict, expected: Expected | None):
        self.name, self.expected, self.warps = name, expected, counters["warps"]
        opcodes = {line: opcodes_of(text) for line, text in enumerate(ptx.split("\n"), 1)}
        self.lines = []
        for line, *counts in counters["lines"]:  # a line's instructions in their order; after the last line a return
            self.lines.append(Line(line, opcodes[line].pop(0) if opcodes.get(line) else "ret", *counts))

    def by_pipe(self, what: str) -> Counter:
        """Pipe → the sum of one of a Line's numbers."""
        sums = Counter()
        for each in self.lines:
            sums[pipe_of(each.opcode)] += getattr(each, what)
        return sums

    @property
    def mma_flops(self) -> int:
        """Floating-point operations of the tensor cores."""
        return sum(each.executed * mma_flops(each.opcode) for each in self.lines)

    @property
    def mufu(self) -> int:
        """Transcendental operations, a thread each."""
        return self.by_pipe("lanes")["xu"]

    @property
    def global_bytes(self) -> int:
        """Bytes that loads, stores and copies ask of global memory."""
        return sum(each.bytes for each in self.lines if each.sectors)


def _ratio(counted: int, expected: int) -> str:
    return f"{counted / expected:.3f}" if expected else "-"


def print_profiles(profiles: list[KernelProfile], fast: dict, checked: dict, lines: int) -> None:
    """Four tables: instructions by pipe, counts beside the plan's, memory, and where the emulator's own time goes.

    fast, checked: call → host seconds without and with checks. lines: how many of the slowest instructions to print.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console()

    def table(title: str, *columns: str) -> Table:
        made = Table(title=title, title_justify="left")
        for i, column in enumerate(columns):
            made.add_column(column, justify="right" if i else "left")
        return made

    pipes = table("Warp instructions, in thousands", "kernel", *PIPES, "all", "most / fewest of a warp")
    for each in profiles:
        counts = each.by_pipe("executed")
        cells = [f"{counts[pipe] / 1e3:.1f}" for pipe in PIPES]
        pipes.add_row(each.name, *cells, f"{counts.total() / 1e3:.1f}", _ratio(max(each.warps), min(each.warps)))
    console.print(pipes)

    plan = table(
        "Counted, and counted / expected of the plan", "kernel", "MMA MFLOP", "", "MUFU k", "", "global kB", ""
    )
    for each in profiles:
        cells = []
        for counted, unit, name in (
            (each.mma_flops, 1e6, "mma_flops"),
            (each.mufu, 1e3, "mufu"),
            (each.global_bytes, 1e3, "bytes"),
        ):
            expected = getattr(each.expected, name) if each.expected else 0
            cells += [f"{counted / unit:.1f}", _ratio(counted, expected)]
        plan.add_row(each.name, *cells)
    console.print(plan)

    memory = table("Memory", "kernel", "sectors k", "asked for / moved", "shared wavefronts k", "without conflicts")
    for each in profiles:
        sectors, waves, least = (
            sum(getattr(one, what) for one in each.lines) for what in ("sectors", "wavefronts", "least_wavefronts")
        )
        used = f"{each.global_bytes / (sectors * _SECTOR):.0%}" if sectors else "-"
        memory.add_row(each.name, f"{sectors / 1e3:.1f}", used, f"{waves / 1e3:.1f}", _ratio(least, waves))
    console.print(memory)

    host = table("The emulator's own time with checks, by pipe", "kernel", *PIPES)
    for each in profiles:
        ticks = each.by_pipe("ticks")
        host.add_row(each.name, *(f"{ticks[pipe] / max(ticks.total(), 1):.0%}" for pipe in PIPES))
    console.print(host)
    for each in profiles if lines else ():
        for one in sorted(each.lines, key=lambda line: -line.ticks)[:lines]:
            ticks = one.ticks / max(one.executed, 1)
            text = f"{each.name}:{one.line}: {one.opcode}: {one.executed} times, {ticks:.0f} ticks each"
            console.print(text, highlight=False, soft_wrap=True, markup=False)
    for call, seconds in fast.items():
        console.print(
            f"{call}: {seconds:.3f} s without checks, MMAs in float32; {checked[call]:.3f} s with checks, MMAs exact",
            highlight=False,
        )
