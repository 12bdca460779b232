"""The changes that make mutants: each is one line of a kernel's PTX that is otherwise as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .instruction import Instruction, contexts, instructions, nameless

_OTHER_COMPARISON = {
    "lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq",
    "lo": "ls", "ls": "lo", "hi": "hs", "hs": "hi",
}  # fmt: skip
# Of integers a shifted comparison is the same as the bound shifted this way, which then needn't be made.
_SHIFT_OF_COMPARISON = {"lt": 1, "ge": 1, "lo": 1, "hs": 1, "le": -1, "gt": -1, "ls": -1, "hi": -1}
_WITHOUT_LAST_LANE = "2147483647"
_WAITS = ("cp.async.wait_group", "cp.async.wait_all")


@dataclass(frozen=True)
class Mutant:
    """One changed line of a kernel. rule: what was done, in a few words. text, changed: the line before and after.

    context: as in `instruction.contexts`; place: how many of the instructions before it have the same context;
    nameless: the line before, without the numbers of registers.
    """

    kernel: str
    line: int
    rule: str
    text: str
    changed: str
    nameless: str
    context: str
    place: int

    def apply(self, ptx: str) -> str:
        """The kernel's PTX with the change."""
        lines = ptx.split("\n")
        lines[self.line - 1] = self.changed
        return "\n".join(lines)


def mutants(kernel: str, ptx: str) -> list[Mutant]:
    """All mutants of a kernel, in the order of its lines."""
    found = []
    every = instructions(ptx.split("\n"))
    context, seen = contexts(every), Counter()
    for one in every:
        digits = context[one.line]
        for rule, changed in _changes(one):
            text = one.text().strip()
            found.append(Mutant(kernel, one.line, rule, text, changed, nameless(one), digits, seen[digits]))
        seen[digits] += 1
    return found


def _changes(one: Instruction) -> Iterator[tuple[str, str]]:
    """(rule, changed line) of every change that an instruction offers."""
    if one.opcode.startswith(("bar.", "barrier.")) or one.opcode == "cp.async.commit_group" or one.opcode in _WAITS:
        yield "dropped", ""
    if one.opcode == "cp.async.wait_group":
        yield "one group more in flight", one.text(operands=(str(int(one.operands[0]) + 1),))
    if one.guard:
        yield "guard negated", one.text(negated=not one.negated)
        yield "always executed", one.text(guard="")
        yield "never executed", ""
    if one.name == "setp":
        comparison, *rest = one.types
        if comparison in _OTHER_COMPARISON:
            yield "comparison shifted", one.text(opcode=".".join(["setp", _OTHER_COMPARISON[comparison], *rest]))
    if one.name in ("setp", "min", "max", "selp"):
        yield from _shifted_bounds(one)
    if one.name == "selp":
        target, a, b, predicate = one.operands
        yield "choices exchanged", one.text(operands=(target, b, a, predicate))
    if one.opcode.startswith("cp.async.c") and len(one.operands) > 3:
        yield "zero fill left out", one.text(operands=(*one.operands[:3], one.operands[2]))
    if one.name == "shfl":
        yield "mask lacks a lane", one.text(operands=(*one.operands[:-1], _WITHOUT_LAST_LANE))
    if one.opcode == "bar.warp.sync":
        yield "mask lacks a lane", one.text(operands=(_WITHOUT_LAST_LANE,))


def _shifted_bounds(one: Instruction) -> Iterator[tuple[str, str]]:
    same = _SHIFT_OF_COMPARISON.get(one.types[0]) if one.name == "setp" else None
    unsigned = one.types[-1].startswith("u")
    for place, operand in enumerate(one.operands):
        if place == 0 or not operand.removeprefix("-").isdecimal():
            continue
        for shift in (1, -1):
            if shift == same or (unsigned and int(operand) + shift < 0):
                continue
            operands = (*one.operands[:place], str(int(operand) + shift), *one.operands[place + 1 :])
            yield f"{operand} shifted to {operands[place]}", one.text(operands=operands)
