"""Survivors that were looked at and found right: a file of groups, each with its reason in words.

A group names an operation, and the rule and the instruction (registers without their numbers) of its mutants;
`contexts` are those of `instruction.contexts`, so that lines and registers may move; "a2b427eb#1" is the second
instruction of a kernel with that context alone. A mutant with all of them the same is said to be equivalent: it does
nothing else than the true kernel in any run that the engine makes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .rules import Mutant
from .scenarios import operation_of


@dataclass(frozen=True)
class Group:
    """Mutants that are right for the same reason, `why`. rule, text: as in Mutant, text without registers' numbers.

    dims: such as "d64_r32", where the reason holds for kernels of these alone; "" for all.
    """

    operation: str
    rule: str
    text: str
    contexts: frozenset[str]
    why: str
    dims: str = ""

    def has(self, mutant: Mutant) -> bool:
        """Whether the mutant is one of the group."""
        return (
            not self.contexts.isdisjoint((mutant.context, f"{mutant.context}#{mutant.place}"))
            and (mutant.rule, mutant.nameless) == (self.rule, self.text)
            and operation_of(mutant.kernel) == self.operation
            and self.dims in mutant.kernel
        )


class Equivalent:
    """The groups of a file. Errors: ValueError, with the file and the group, for one without a reason or a field."""

    def __init__(self, path: Path):
        self.groups = []
        for number, fields in enumerate(json.loads(path.read_text())):
            fields = {**fields, "contexts": frozenset(fields.get("contexts", ()))}
            if {*fields, "dims"} != set(Group.__annotations__) or not all(fields.values()):
                raise ValueError(f"{path}: group {number}: expected {', '.join(Group.__annotations__)}, got {fields}")
            self.groups.append(Group(**fields))

    def why(self, mutant: Mutant) -> str:
        """Why a mutant is equivalent; "" if it isn't known to be."""
        return next((group.why for group in self.groups if group.has(mutant)), "")
