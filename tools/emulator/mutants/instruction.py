"""The instructions of a PTX text, a line each, and what makes one of them known when lines and registers move."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_INSTRUCTION = re.compile(
    r"^\s*(?:@(?P<negated>!?)(?P<guard>%\w+)\s+)?(?P<opcode>[a-z][\w.:]*)(?:\s+(?P<operands>.*?))?;$"
)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
_REGISTER = re.compile(r"%(p|rs|rd|r|fd|f|h|hh)\d+")
_LABEL = re.compile(r"\$\w+")
_CONTEXT = 4  # instructions before and after


@dataclass(frozen=True)
class Instruction:
    """A line's instruction. line: from 1. guard: the predicate's name, or "". operands: as written."""

    line: int
    guard: str
    negated: bool
    opcode: str
    operands: tuple[str, ...]

    @property
    def name(self) -> str:
        """The opcode's first word."""
        return self.opcode.split(".")[0]

    @property
    def types(self) -> list[str]:
        """The opcode's other words."""
        return self.opcode.split(".")[1:]

    def text(self, **changed) -> str:
        """The instruction as PTX, some of its fields changed."""
        it = {**vars(self), **changed}
        guard = f"@{'!' if it['negated'] else ''}{it['guard']} " if it["guard"] else ""
        return f"\t{guard}{it['opcode']} {', '.join(it['operands'])}".rstrip() + ";"


def instructions(lines: list[str]) -> list[Instruction]:
    """The instructions of a text; directives, labels and comments aren't any."""
    found = []
    for number, line in enumerate(lines, 1):
        match = _INSTRUCTION.match(line)
        if match:
            operands = tuple(each.strip() for each in _OPERAND.findall(match["operands"] or ""))
            found.append(Instruction(number, match["guard"] or "", bool(match["negated"]), match["opcode"], operands))
    return found


def nameless(instruction: Instruction) -> str:
    """The instruction's text without the numbers of registers and labels."""
    return _LABEL.sub("label", _REGISTER.sub(r"%\1", instruction.text().strip()))


def contexts(all_instructions: list[Instruction]) -> dict[int, str]:
    """Line → eight hexadecimal digits that stand for the instruction and its neighbours, without registers' numbers.

    The same digits are those of the same code in the same place of an unrolled loop, so that an instruction may have
    its context in common with others; `Mutant.place` tells them apart.
    """
    texts = [nameless(each) for each in all_instructions]
    return {
        each.line: hashlib.sha256(
            "\n".join((*texts[max(0, i - _CONTEXT) : i], ">" + texts[i], *texts[i + 1 : i + 1 + _CONTEXT])).encode()
        ).hexdigest()[:8]
        for i, each in enumerate(all_instructions)
    }
